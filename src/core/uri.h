/*
 * uri.h
 *		Where a store lives: the server option url, and the endpoint it is reached at.
 */
#ifndef PGOS_URI_H
#define PGOS_URI_H

#include "core/base.h"

typedef enum PgosScheme
{
	PGOS_SCHEME_FILE, /* file:///dir, or file:dir relative to the data directory */
	PGOS_SCHEME_S3,	  /* s3://bucket[/prefix] */
	PGOS_SCHEME_GS	  /* gs://bucket[/prefix] */
} PgosScheme;

typedef struct PgosUri
{
	PgosScheme scheme;
	char	  *bucket; /* NULL for file */
	char *prefix; /* raw, no leading and no trailing '/', "" for none; for file the directory */
} PgosUri;

typedef struct PgosEndpoint
{
	bool  tls;
	char *host;			   /* lower case; an IPv6 address with its brackets */
	int	  port;			   /* explicit, or 80/443 */
	bool  port_is_default; /* the Host header then carries no port */
} PgosEndpoint;

/* Both return NULL on success, else what is wrong as a sentence for DETAIL (palloc'd or static). */
extern const char *pgos_uri_parse(const char *text, PgosUri *uri);
extern const char *pgos_endpoint_parse(const char *text, PgosEndpoint *endpoint);

#endif

/*
 * store_options.h
 *		Options of the foreign-data wrapper `objstore`: which exist, what they may hold.
 *
 * The validator (SQL function objstore_fdw_validator) and pgos_store_open() read the same table of options.
 */
#ifndef PGOS_STORE_OPTIONS_H
#define PGOS_STORE_OPTIONS_H

#include "postgres.h"
#include "core/uri.h"

typedef enum PgosUrlStyle
{
	PGOS_URL_AUTO, /* path with an endpoint option or a dot in the bucket, virtual host otherwise */
	PGOS_URL_PATH,
	PGOS_URL_VIRTUAL
} PgosUrlStyle;

/* Parsed options of a server and of the user mapping that applies; strings live in the caller's context. */
typedef struct PgosStoreOptions
{
	char		*server_name;
	PgosUri		 url;
	char		*region;	 /* default us-east-1 */
	bool		 has_region; /* the option is set */
	bool		 has_endpoint;
	PgosEndpoint endpoint;
	PgosUrlStyle url_style;
	char		*ca_file;	/* or NULL: the system's */
	int64		 part_size; /* bytes */
	int			 concurrency;
	int			 connect_timeout; /* milliseconds */
	int			 request_timeout; /* milliseconds without progress */
	char		*access_key_id;	  /* NULL for file: */
	char		*secret_access_key;
	char		*session_token; /* or NULL */
} PgosStoreOptions;

/* Raises for a missing user mapping (with a hint), except for file:. */
extern void pgos_store_options_get(Oid serverid, Oid userid, PgosStoreOptions *options);

#endif

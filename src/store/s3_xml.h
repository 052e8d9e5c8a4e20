/*
 * s3_xml.h
 *		An XML answer as a small tree.
 */
#ifndef PGOS_S3_XML_H
#define PGOS_S3_XML_H

#include "postgres.h"

typedef struct PgosXml
{
	char		   *name; /* without namespace */
	char		   *text; /* UTF-8, all text directly below it; "" for none */
	struct PgosXml *children;
	struct PgosXml *next;
} PgosXml;

/*
 * The root element, palloc'd in the current context; NULL for anything that is not well-formed, has a document
 * type (entities), or is nested too deep.  Reads no other file.  Raises nothing but out of memory.
 */
extern PgosXml *pgos_xml_parse(const char *data, size_t len);

/* The first child of that name, or NULL. */
extern const PgosXml *pgos_xml_child(const PgosXml *element, const char *name);
/* Its text; "" when there is no such child. */
extern const char *pgos_xml_text(const PgosXml *element, const char *name);

#endif

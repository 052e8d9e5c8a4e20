/*
 * extension.h
 *		The extension as the catalogs have it.
 *
 * Needs a transaction; may raise.
 */
#ifndef PGOS_EXTENSION_H
#define PGOS_EXTENSION_H

#include "postgres.h"

/* Schema and owner; false when the extension does not exist in this database (any more). */
extern bool pgos_extension_lookup(Oid *schema, Oid *owner);

#endif

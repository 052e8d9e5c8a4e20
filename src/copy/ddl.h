/*
 * ddl.h
 *		A relation's definition as JSON for the manifest, and the way back: CREATE TABLE from that JSON.
 *
 * The JSON object is the manifest's member "relation".  See docs/REFERENCE.md, "Manifest", for its members.
 * Both directions run inside a transaction, in a worker, with the rights of the current user; both raise.
 */
#ifndef PGOS_DDL_H
#define PGOS_DDL_H

#include "postgres.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/jsonb.h"

/*
 * Appends the JSON object (in the server's encoding) that describes the relation to out.  columns: names
 * (char *) of the columns that are exported, in order, or NIL for all that COPY exports.  Works for tables,
 * partitioned tables (with their partitions), views, materialized and foreign tables; the latter three are
 * described as the table that a pull creates of them: columns with types and collations.
 */
extern void pgos_ddl_describe(Oid relid, List *columns, StringInfo out);

/*
 * CREATE TABLE nspname.relname from the JSON: columns with types, collations, not null, defaults, identity,
 * generated, check constraints, the sequences that serial columns own, partitions, comments.  What would slow
 * the load down (indexes, primary key, unique, exclusion constraints) is left to pgos_ddl_create_indexes().
 * Returns the OID.
 */
extern Oid	pgos_ddl_create(Jsonb *relation, const char *nspname, const char *relname);
extern void pgos_ddl_create_indexes(Jsonb *relation, Oid relid);

/*
 * The foreign keys, when all tables are loaded.  One whose other table does not exist is left out: its
 * "constraint on table" is appended to *left_out (char *).
 */
extern void pgos_ddl_create_foreign_keys(Jsonb *relation, Oid relid, List **left_out);

/* Sets the sequences of identity and serial columns to the values in the JSON, after the load. */
extern void pgos_ddl_set_sequences(Jsonb *relation, Oid relid);

/*
 * Names (char *) of the columns that the dataset's rows hold, in order: the JSON's columns less generated
 * ones, or the exported subset.
 */
extern List *pgos_ddl_columns(Jsonb *relation);

#endif

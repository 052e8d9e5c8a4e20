/*
 * copy_load_internal.h
 *		What the files of copy_load.h share: the plan for an object, one attempt to load rows.
 *
 *		copy_load.c		an object from its first byte: byte order mark, header line, plan, then the rows
 *		copy_plan.c		which column of the file goes where, and which way the rows take
 *		copy_from.c		rows by COPY FROM
 *		copy_from_direct.c	the same without COPY, where its rows can be decoded directly
 *		copy_reader.c	rows as COPY's parser reads them, one by one
 *		copy_insert.c	rows by INSERT, out of a reader
 *		copy_batch.c	bad rows: batches of lines in subtransactions
 *
 * Everything may raise.  Memory is of the current context unless stated otherwise.
 */
#ifndef PGOS_COPY_LOAD_INTERNAL_H
#define PGOS_COPY_LOAD_INTERNAL_H

#include "postgres.h"

#include "compat.h"

#include "access/attnum.h"
#include "commands/copy.h"
#include "commands/copyfrom_internal.h"
#include "copy/copy_load.h"
#include "core/binary_check.h"
#include "core/record_split.h"
#include "nodes/bitmapset.h"

/* A column of the file. */
typedef struct PgosFileColumn
{
	const char *name;  /* for messages */
	AttrNumber	attno; /* of the relation; 0: left out */
} PgosFileColumn;

/* A column of the relation whose value is the same in all rows of the object. */
typedef struct PgosConstant
{
	AttrNumber attno;
	bool	   isnull;
	Datum	   value;
} PgosConstant;

/* How the rows of one object get into the relation. */
typedef struct PgosPlan
{
	const PgosLoadObject *object;
	List				 *options; /* for COPY: without header and freeze */
	bool				  freeze;
	PgosFileColumn		 *columns;
	int					  column_count;
	PgosConstant		 *constants;
	int					  constant_count;
	AttrNumber			  row_attno;	 /* takes the row's number; 0: none does */
	bool				  insert;		 /* not by COPY FROM */
	const char			 *insert_reason; /* for messages: what COPY FROM cannot do */
	PgosEol				  eol;			 /* of the stream, as far as it is known */
} PgosPlan;

/* Where an error came from, as far as the error context knows: see pgos_load_context(). */
typedef struct PgosErrorPlace
{
	bool   known; /* it is the row at `line` */
	uint64 line;
	char   column[NAMEDATALEN]; /* or "" */
} PgosErrorPlace;

struct PgosLoad
{
	Relation			rel;
	bool				new_relation;
	const PgosLoadSpec *spec;
	PgosLoadEvents		events;
	MemoryContext		context;
	bool				rls;	   /* row-level security applies to the current user */
	char			   *datestyle; /* of the role */
	/* of the object under way */
	const PgosPlan *plan;
	int64			rows_before; /* loaded by earlier batches of it */
	CopyFromState	cstate;		 /* of the COPY or reader that is active, or NULL */
	bool			inserting;	 /* the row at `cstate->cur_lineno` is being inserted */
	PgosErrorPlace	place;		 /* of the last error */
	const char	   *copy_reason; /* why rows took COPY or INSERT, or NULL: none did */
};

/* Rows of a stream, from the row behind first_line lines on; row numbers go on behind first_row. */
typedef struct PgosRowsInput
{
	PgosSource *source;
	uint64		first_line;
	int64		first_row;
} PgosRowsInput;

/* ---------------------------------------------------------------- copy_load.c */

/* Both return the number of rows loaded; *read is the number of rows in the stream. */
extern int64
pgos_load_rows(PgosLoad *load, const PgosPlan *plan, const PgosRowsInput *input, int64 *read);

/* ---------------------------------------------------------------- copy_plan.c */

/* fields: names (char *) in the header line, or NIL; field_count: fields in the first row, 0 if not known. */
extern PgosPlan *
pgos_plan_make(PgosLoad *load, const PgosLoadObject *object, List *fields, int field_count);

/* ---------------------------------------------------------------- copy_from.c */

/* The options without those that say how COPY begins. */
extern List *pgos_copy_options_without(List *options, const char *const *names);

/* BeginCopyFrom() out of the source; while it is active, pgos_copy_input_set() must say so. */
typedef struct PgosCopyInput
{
	PgosSource	   *source;
	PgosLoad	   *load; /* to be told of progress, or NULL */
	bool			is_binary;
	PgosBinaryCheck binary; /* of what COPY was given */
} PgosCopyInput;

extern int pgos_copy_input_read(void *outbuf, int minread, int maxread);
/* Returns what it was before, to be restored. */
extern PgosCopyInput *pgos_copy_input_set(PgosCopyInput *input);

/* Raises: there is something behind the end-of-data marker. */
extern void pgos_copy_fail_marker(const char *url) pg_attribute_noreturn();

/* After the last row: raises if the end-of-data marker came before the end of the stream, or not at all. */
extern void pgos_copy_check_end(CopyFromState cstate, const PgosCopyInput *input, const char *url);

/* BeginCopyFrom(), and the lines before the input's. */
extern CopyFromState pgos_copy_begin(PgosLoad *load, const PgosPlan *plan,
									 const PgosRowsInput *input, ParseState *pstate);

extern int64
pgos_copy_rows(PgosLoad *load, const PgosPlan *plan, const PgosRowsInput *input, int64 *read);

/* The fields of one line, in the server's encoding. */
extern List *pgos_copy_fields(PgosLoad *load, List *options, PgosSource *source);

/* ---------------------------------------------------------------- copy_from_direct.c */

/* As pgos_copy_rows(), which loads what cannot be decoded directly. */
extern int64
pgos_direct_rows(PgosLoad *load, const PgosPlan *plan, const PgosRowsInput *input, int64 *read);

/* ---------------------------------------------------------------- copy_reader.c */

typedef struct PgosReader PgosReader;

extern PgosReader *
pgos_reader_begin(PgosLoad *load, const PgosPlan *plan, const PgosRowsInput *input);
/* The next row of the relation's type; false at the end.  Allocates in the current context. */
extern bool	 pgos_reader_next(PgosReader *reader, Datum *row);
extern int64 pgos_reader_rows(const PgosReader *reader);
extern void	 pgos_reader_end(PgosReader *reader);

/* ---------------------------------------------------------------- copy_insert.c */

extern int64
pgos_insert_rows(PgosLoad *load, const PgosPlan *plan, const PgosRowsInput *input, int64 *read);

/* ---------------------------------------------------------------- copy_batch.c */

/*
 * All the rows that are left, batch by batch.  splitter: set up, with the line end known if it is; encoding: of
 * the source.
 */
extern void pgos_batch_load(PgosLoad *load, PgosPlan *plan, PgosSplitter *splitter, int encoding,
							PgosSource *source, uint64 first_line, PgosLoadCounts *counts);

#endif

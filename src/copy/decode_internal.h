/*
 * decode_internal.h
 *		What the files of the direct decoder share: decode.c (records and fields), decode_values.c (values).
 */
#ifndef PGOS_DECODE_INTERNAL_H
#define PGOS_DECODE_INTERNAL_H

#include "postgres.h"

#include "copy/decode.h"
#include "fmgr.h"

/* Bytes for the values of one row; what does not fit is allocated. */
#define PGOS_DECODE_SCRATCH (64 * 1024)

typedef struct PgosDecodeColumn PgosDecodeColumn;

/*
 * Sets *value to what the text src is, of which PGOS_DECODE_PAD bytes more may be read; or returns false: the input
 * function is to do it.
 */
typedef bool (*PgosDecodeFn)(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len,
							 Datum *value);

struct PgosDecodeColumn
{
	PgosDecodeFn decode;	/* NULL: always the input function */
	bool		 call_null; /* the input function has a say in NULLs */
	int			 index;		/* attribute number, less one */
	int32		 typmod;
	int32		 limit; /* characters, digits before the point, or digits of a fraction */
	int32		 scale; /* numeric; -1: as it comes */
	const char	*name;
	FmgrInfo	*in;
	Oid			 ioparam;
	void		*state; /* labels of an enum */
};

/* How a field is written. */
typedef enum PgosFieldKind
{
	PGOS_FIELD_PLAIN,  /* its bytes are its text, which may be NULL's */
	PGOS_FIELD_QUOTED, /* the same, and not NULL */
	PGOS_FIELD_ESCAPED /* with quotes or backslashes to take away */
} PgosFieldKind;

typedef struct PgosField
{
	char		 *src;
	size_t		  len;
	PgosFieldKind kind;
} PgosField;

struct PgosDecoder
{
	CopyFromState	  cstate;
	bool			  csv;
	bool			  marker; /* "\." alone on a line means something in csv */
	char			  delimiter;
	char			  quote;
	char			  escape;
	const char		 *null_print;
	size_t			  null_len;
	PgosMarks		  between; /* what ends or changes a field */
	PgosMarks		  inside;  /* csv: the same inside of quotes */
	PgosEscape		  escapes;
	PgosDecodeColumn *columns;
	PgosField		 *fields;
	int				  count;
	const char		 *oddity;
	bool  own_text; /* the value's text is in scratch, with room for a varlena's header before it */
	char *scratch;	/* for the values of one row */
	char *scratch_end;
	char *free; /* in scratch */
};

/* Memory for a value of the row at hand, aligned, with PGOS_DECODE_PAD bytes more. */
static inline char *
pgos_decode_alloc(PgosDecoder *dec, size_t n)
{
	char *p = dec->free;

	if (unlikely((size_t) (dec->scratch_end - p) < n + PGOS_DECODE_PAD + MAXIMUM_ALIGNOF))
		return palloc(n + PGOS_DECODE_PAD);
	dec->free = p + MAXALIGN(n);
	return p;
}

/* ---------------------------------------------------------------- decode.c */

/* What COPY does with every value; text NULL: a null. */
extern Datum pgos_decode_by_function(PgosDecoder *dec, PgosDecodeColumn *col, char *text);

/* ---------------------------------------------------------------- decode_values.c */

/* The function for a column's values: sets col->decode and what it needs. */
extern void pgos_decode_choose(PgosDecodeColumn *col, Form_pg_attribute att);

#endif

/*
 * encode_internal.h
 *		What the files of the direct encoder share: encode.c (rows), encode_values.c (values of most types),
 *		encode_json.c (jsonb), encode_array.c (arrays).
 *
 * The window.  Bytes are written at a pointer p that is handed from function to function, into the window that
 * ends at enc->end.  The window is the rest of the sink's buffer; near that buffer's end, where the next piece
 * might not fit, it is a scratch buffer, which goes into the sink when it is full or the row ends.  So nothing
 * checks for room byte by byte, and no row or value is too large.
 */
#ifndef PGOS_ENCODE_INTERNAL_H
#define PGOS_ENCODE_INTERNAL_H

#include "postgres.h"

#include "copy/encode.h"
#include "copy/encode_kernels.h"
#include "fmgr.h"
#include "pgtime.h"

/* Room that every encoder finds at p, and may use but for the last byte, which is the delimiter's. */
#define PGOS_ENCODE_ROOM 96
/* What the kernels may write beyond what they return, and the delimiter. */
#define PGOS_ENCODE_SLACK 32
/* Longer values are written in pieces of so many bytes. */
#define PGOS_ENCODE_PIECE 4096

typedef struct PgosEncodeColumn PgosEncodeColumn;

/* How values lie in a tuple, and what of them an encoder is given as data and len. */
typedef enum PgosStored
{
	PGOS_STORED_FIXED, /* its bytes */
	PGOS_STORED_INT4,  /* the same; so frequent that they are written without a call */
	PGOS_STORED_INT8,
	PGOS_STORED_PACKED,	 /* what the varlena holds, detoasted */
	PGOS_STORED_VARLENA, /* the varlena as it is; len is not used */
	PGOS_STORED_CSTRING	 /* the string; len is not used */
} PgosStored;

/* Writes a value at p and returns where it ends, with room for a delimiter. */
typedef char *(*PgosEncodeFn)(PgosEncoder *enc, PgosEncodeColumn *col, const char *data, size_t len,
							  char *p);

struct PgosEncodeColumn
{
	PgosEncodeFn encode;	 /* NULL: not exported */
	uint8		 stored;	 /* PgosStored */
	uint8		 align_mask; /* alignment in bytes, less one */
	int16		 attlen;
	bool		 attbyval;
	bool		 force_quote;
	bool		 missing_isnull; /* in tuples that are older than the column */
	Datum		 missing;
	FmgrInfo	*out;
	void		*state; /* of the encoder: labels of an enum, element of an array */
};

/* Offset of the session's time zone for all of a bucket of 2^36 microseconds (19 hours) since 2000 in UTC. */
#define PGOS_ZONE_SHIFT 36
#define PGOS_ZONE_SLOTS 1024

typedef struct PgosZoneSlot
{
	int32 bucket;
	int32 offset; /* seconds east of UTC */
} PgosZoneSlot;

struct PgosEncoder
{
	char	 *p;	 /* between two rows */
	char	 *end;	 /* of the window */
	char	 *limit; /* where enc->room is left of it */
	char	 *mark;	 /* a row that ends here or later has more to do */
	PgosSink *sink;
	char	 *scratch;
	size_t	  scratch_size;
	bool	  in_scratch;
	char	 *row;	   /* where the row under way begins in the window */
	size_t	  row_len; /* of it in earlier windows */
	int64	  rows;

	bool		csv;
	bool		plain;	/* numbers, dates and hexadecimal digits need no look at the options */
	bool		single; /* one column */
	char		delimiter;
	const char *null_print;
	int			null_len;
	size_t		room; /* PGOS_ENCODE_ROOM, and the string for NULL */
	PgosEscape	escape;

	bool in_array; /* what goes to an output function is an element */

	TupleDesc		  desc;
	PgosEncodeColumn *columns; /* by attribute number, less one */
	int				  walk;	   /* attributes up to the last one exported */
	AttrNumber		 *order;
	int				  count;	 /* columns exported */
	bool			  ascending; /* order is that of the table */
	Datum			 *values;	 /* for tuples, if not ascending */
	bool			 *isnull;

	MemoryContext context;
	MemoryContext row_context;
	bool		  row_dirty; /* something is in row_context */

	PgosCopyTick tick;
	void		*arg;
	int64		 ticked; /* bytes in the sink then */

	pg_tz		 *zone; /* that zone_slots hold for */
	PgosZoneSlot *zone_slots;
};

/* ---------------------------------------------------------------- encode.c */

/* A new window with at least n bytes, after what is written up to p has been put away. */
extern char *pgos_encode_make_room(PgosEncoder *enc, char *p, size_t n);

static inline char *
pgos_encode_room(PgosEncoder *enc, char *p, size_t n)
{
	if (likely((size_t) (enc->end - p) >= n))
		return p;
	return pgos_encode_make_room(enc, p, n);
}

/* The quotation mark of JSON and of arrays, as COPY has it where pgos_encode_marks_fit(). */
static inline char *
pgos_encode_mark(PgosEncoder *enc, char *p)
{
	memcpy(p, "\"\"", 2);
	return p + 1 + enc->csv;
}

/* ---------------------------------------------------------------- encode_values.c */

/* The function for a column's values: sets col->encode and what it needs. */
extern void pgos_encode_choose(PgosEncoder *enc, PgosEncodeColumn *col, Oid type);

/* A value in its final text, which is only to be escaped and quoted. */
extern char *
pgos_encode_bytes(PgosEncoder *enc, PgosEncodeColumn *col, const char *src, size_t len, char *p);

/* Any type: what its output function says.  value as in PGOS_STORED_FIXED, _VARLENA or _CSTRING. */
extern char *pgos_encode_by_function(PgosEncoder *enc, PgosEncodeColumn *col, const char *value,
									 size_t len, char *p);

/* A varlena that is neither compressed nor elsewhere. */
extern const char *pgos_encode_detoast(PgosEncoder *enc, const char *value);

/* What a numeric holds. */
extern char *
pgos_encode_numeric(PgosEncoder *enc, PgosEncodeColumn *col, const char *data, size_t len, char *p);

/*
 * The format of numeric.c: a header of 16 bits, in the long form followed by a weight of 16 more, then digits of
 * base 10000, none of it aligned.  The first digit has the weight 10000 ^ weight.
 */
#define PGOS_NUMERIC_SPECIAL 0xc000
#define PGOS_NUMERIC_SHORT 0x8000
#define PGOS_NUMERIC_NEGATIVE 0x4000
#define PGOS_NUMERIC_PINF 0xd000
#define PGOS_NUMERIC_NINF 0xf000
#define PGOS_NUMERIC_DSCALE 0x3fff
#define PGOS_SHORT_NEGATIVE 0x2000
#define PGOS_SHORT_DSCALE(h) (((h) &0x1f80) >> 7)
#define PGOS_SHORT_WEIGHT(h) (((h) &0x0040 ? ~0x003f : 0) | ((h) &0x003f))

/* ---------------------------------------------------------------- encode_json.c */

/* Whether the options are such that values with quotation marks and backslashes of their own can be written directly. */
extern bool pgos_encode_marks_fit(PgosEncoder *enc);
extern char *
pgos_encode_jsonb(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p);

/* ---------------------------------------------------------------- encode_array.c */

/* Whether arrays of this type can be written directly; sets col->state then. */
extern bool pgos_encode_array_prepare(PgosEncoder *enc, PgosEncodeColumn *col, Oid type);
extern char *
pgos_encode_array(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p);

/* The text of an element. */
extern char *pgos_encode_array_text(PgosEncoder *enc, const char *src, size_t len, char *p);

#endif

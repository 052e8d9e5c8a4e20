/*
 * decode.h
 *		The direct decoder: rows out of csv and text as COPY FROM reads them, value for value.
 *
 * COPY looks at each byte several times, copies it twice, and calls and allocates for every value.  Here a record
 * is cut into fields in one pass where it lies, and each column has a function that knows its type's plain text.
 * A text that such a function does not know goes through the type's input function, so values and errors are
 * COPY's own.  The decoder only splits what is plain: at anything odd (mixed line ends, wrong numbers of fields,
 * the end-of-data marker) it says so, and COPY does the rest of the stream.
 *
 * A decoder lives in the memory context that was current when it was made.  Runs in a worker; raises what the
 * input functions raise.
 */
#ifndef PGOS_DECODE_H
#define PGOS_DECODE_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"
#include "copy/decode_kernels.h"
#include "core/record_split.h"

typedef struct PgosDecoder PgosDecoder;

typedef enum PgosDecodeResult
{
	PGOS_DECODE_RECORD, /* there is a record */
	PGOS_DECODE_MORE,	/* it does not end within the data */
	PGOS_DECODE_ODD		/* it is not plain */
} PgosDecodeResult;

/* A record, as the last split found it. */
typedef struct PgosDecodeRecord
{
	size_t len;		 /* with the line end */
	size_t data_len; /* without */
	uint64 newlines; /* line ends inside of quotes, counted as COPY counts them */
} PgosDecodeRecord;

/* Why the decoder cannot read for this COPY, in words that follow "copy: "; NULL if it can. */
extern const char *pgos_decoder_refusal(CopyFromState cstate);

/*
 * Reads the columns of the COPY, which was begun and must outlive the decoder.  What happens is told to it: the
 * column at hand for messages.
 */
extern PgosDecoder *pgos_decoder_new(CopyFromState cstate);

/*
 * Splits the record that begins at data, in a buffer that has PGOS_MARK_BLOCK bytes more.  *eol becomes known with
 * the first line end.
 */
extern PgosDecodeResult pgos_decoder_split(PgosDecoder *dec, char *data, const char *end,
										   PgosEol *eol, PgosDecodeRecord *record);

/* What is odd. */
extern const char *pgos_decoder_oddity(const PgosDecoder *dec);

/*
 * The values of the record that was split; columns that are not in the file are not set.  They are in the
 * current memory context or in memory of the decoder, until the next record.
 */
extern void pgos_decoder_values(PgosDecoder *dec, Datum *values, bool *isnull);

#endif

/*
 * encode.h
 *		The direct encoder: rows as COPY TO writes them in text and csv, byte for byte, straight into a sink.
 *
 * COPY spends most of its time in one call, one allocation and several copies for every value.  Here each
 * column has a function that writes its type's text into the sink's buffer, already escaped; types without one
 * go through their output function, in the same row.  What it writes is COPY's under any setting, option and
 * value; what it cannot do at all pgos_encoder_refusal() says before anything is written.
 *
 * An encoder lives in the memory context that was current when it was made.  One stream, one encoder.
 * Runs in a worker; raises what the output functions and the sink raise.
 */
#ifndef PGOS_ENCODE_H
#define PGOS_ENCODE_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"
#include "commands/copy.h"
#include "copy/copy_stream.h"
#include "executor/tuptable.h"
#include "nodes/pg_list.h"
#include "stream/sink.h"

typedef struct PgosEncoder PgosEncoder;

/* Why the encoder cannot write with these options, in words that follow "copy: "; NULL if it can. */
extern const char *pgos_encoder_refusal(const CopyFormatOptions *options);

/*
 * Writes the columns attnums (integers, in their order) of rows of desc; desc and sink must outlive the encoder.
 * The header line, if the options ask for one, is written by this call.  tick is told of progress as for
 * pgos_copy_to().
 */
extern PgosEncoder *pgos_encoder_new(TupleDesc desc, List *attnums, CopyFormatOptions *options,
									 PgosSink *sink, PgosCopyTick tick, void *arg);

/* One row: a tuple as it is in a heap's page, or whatever is in a slot. */
extern void pgos_encoder_tuple(PgosEncoder *enc, HeapTuple tuple);
extern void pgos_encoder_slot(PgosEncoder *enc, TupleTableSlot *slot);

/* Leaves the sink as pgos_sink_write() would; returns the number of rows.  The encoder is of no use any more. */
extern int64 pgos_encoder_end(PgosEncoder *enc);

#endif

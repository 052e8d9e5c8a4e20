/*
 * zstd_sink.h
 *		A sink that compresses into the next one: independent zstd frames that begin at row boundaries.
 */
#ifndef PGOS_ZSTD_SINK_H
#define PGOS_ZSTD_SINK_H

#include "stream/sink.h"

/*
 * level: as ZSTD_CCtx takes it.  frame_size: raw bytes after which the frame ends at the next row.  Takes
 * memory of about 16 MiB plus what zstd needs for the level.
 */
extern PgosSink *pgos_zstd_sink_new(PgosSink *next, int level, size_t frame_size);

/*
 * Between two rows: ends the frame, and sets *offset to where the next one begins in the next sink's stream.  That
 * is known, and *offset set, once the output has gone there: after end() at the latest.
 */
extern void pgos_zstd_sink_mark(PgosSink *sink, int64 *offset);

/* After end(): another stream, into another sink, with the thread and memory that are there. */
extern void pgos_zstd_sink_restart(PgosSink *sink, PgosSink *next);

#endif

/*
 * sink.h
 *		A chain of sinks: where the rows of a push go.
 *
 * The owner of a sink's buffer is the sink; its writer fills buf[len .. size) in place.  So the encoder
 * writes where the compressor reads, and the compressor's output is what is uploaded: no copy in between
 * that is not needed.
 *
 *		writer				sink
 *		------				----
 *		fills buf, len grows
 *		len == size			drain():  takes the len bytes; sets buf, size, len = 0 anew
 *		row complete		if (len >= cut_len) cut():  as drain(), and what follows may begin a new frame
 *		no more rows		end():    takes what is left, hands it on; does not wait for the network
 *
 * What becomes of the stream after end() is the last sink's own business (stream/upload.h).
 *
 * drain(), cut() and end() may raise and may wait for the network.  After an error nothing more is called;
 * the sink's memory context is reset, and its reset callbacks give everything back (threads, requests).
 * Runs in a worker.
 */
#ifndef PGOS_SINK_H
#define PGOS_SINK_H

#include "postgres.h"

typedef struct PgosSink PgosSink;

typedef struct PgosSinkOps
{
	void (*drain)(PgosSink *sink);
	void (*cut)(PgosSink *sink);
	void (*end)(PgosSink *sink);
} PgosSinkOps;

struct PgosSink
{
	const PgosSinkOps *ops;
	char			  *buf;
	size_t			   size;	  /* bytes of buf, at least 1 */
	size_t			   len;		  /* bytes filled by the writer */
	size_t			   cut_len;	  /* at a row's end with at least so much in buf: cut() */
	int64			   raw_bytes; /* taken by drain(), cut() and end() so far */
};

/* Bytes from elsewhere into the sink. */
static inline void
pgos_sink_write(PgosSink *sink, const char *data, size_t len)
{
	for (;;)
	{
		size_t room = sink->size - sink->len;

		if (len < room)
		{
			memcpy(sink->buf + sink->len, data, len);
			sink->len += len;
			return;
		}
		memcpy(sink->buf + sink->len, data, room);
		sink->len += room;
		data += room;
		len -= room;
		sink->ops->drain(sink);
	}
}

/* The writer is between two rows. */
static inline void
pgos_sink_row_end(PgosSink *sink)
{
	if (sink->len >= sink->cut_len)
		sink->ops->cut(sink);
}

static inline void
pgos_sink_end(PgosSink *sink)
{
	sink->ops->end(sink);
}

/* Raw bytes written so far. */
static inline int64
pgos_sink_written(const PgosSink *sink)
{
	return sink->raw_bytes + (int64) sink->len;
}

#endif

/*
 * binary_check.h
 *		Follows a stream in COPY's binary format to see whether it ends with its trailer.
 *
 * COPY takes a stream that is cut off between two rows for a whole one.  Here only lengths are looked at; what
 * is wrong otherwise is COPY's business.
 *
 * Runs anywhere, never raises, allocates nothing.
 */
#ifndef PGOS_BINARY_CHECK_H
#define PGOS_BINARY_CHECK_H

#include "core/base.h"

typedef enum PgosBinaryState
{
	PGOS_BINARY_HEADER,	   /* signature and flags */
	PGOS_BINARY_EXTENSION, /* length of the header's extension */
	PGOS_BINARY_ROW,	   /* number of fields, or the trailer */
	PGOS_BINARY_FIELD,	   /* length of a field */
	PGOS_BINARY_END		   /* the trailer was seen */
} PgosBinaryState;

/* Starts zeroed. */
typedef struct PgosBinaryCheck
{
	PgosBinaryState state;
	int64			skip; /* bytes that are of no interest */
	int				have; /* bytes of the number under way */
	uint32			number;
	int				fields; /* left in the row */
} PgosBinaryCheck;

/* The next bytes of the stream. */
extern void pgos_binary_check_feed(PgosBinaryCheck *check, const char *data, size_t len);

static inline bool
pgos_binary_check_complete(const PgosBinaryCheck *check)
{
	return check->state == PGOS_BINARY_END;
}

#endif

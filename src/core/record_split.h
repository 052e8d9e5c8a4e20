/*
 * record_split.h
 *		Cuts a stream of COPY's csv or text format into records (the lines of rows), as COPY itself does.
 *
 * The rules are those of CopyReadLineText(): in csv every quote toggles, in text a backslash takes the next
 * character with it; the first line end decides which kind the stream has.  Of line ends of another kind a
 * record may contain one, or end at one; COPY then refuses that record.
 *
 * Runs anywhere, never raises, allocates nothing.
 */
#ifndef PGOS_RECORD_SPLIT_H
#define PGOS_RECORD_SPLIT_H

#include "core/base.h"

typedef enum PgosEol
{
	PGOS_EOL_UNKNOWN,
	PGOS_EOL_NL,
	PGOS_EOL_CR,
	PGOS_EOL_CRNL
} PgosEol;

typedef struct PgosSplitter
{
	/* set by the caller, the rest zero */
	bool csv;
	bool marker;   /* "\." alone on a line ends the data (text; csv before 18) */
	char quote;	   /* csv */
	char escape;   /* csv */
	int	 encoding; /* of the stream, if its characters may hold ASCII bytes; else -1 */

	PgosEol eol;
	bool	prepared;
	bool	special[256]; /* bytes that mean something */
	/* of the record under way */
	size_t scanned; /* bytes of it that have been looked at */
	bool   cut;		/* its beginning is not in the data any more (set by the caller) */
	bool   in_quote;
	int	   newlines;   /* line ends inside of quotes, counted as COPY counts them */
	size_t first_line; /* bytes up to and with the first line end inside of quotes, or 0 */
} PgosSplitter;

typedef enum PgosSplit
{
	PGOS_SPLIT_RECORD,	   /* *len bytes, with the line end, are one record */
	PGOS_SPLIT_MORE,	   /* the record does not end within the data */
	PGOS_SPLIT_MARKER,	   /* *len bytes with the end-of-data marker; *data_len of them before it */
	PGOS_SPLIT_OPEN_QUOTE, /* the stream ends inside of quotes: *len is all that is left */
	PGOS_SPLIT_END		   /* nothing is left */
} PgosSplit;

/*
 * Looks for the end of the record that begins at data.  After MORE, call again with the same data and more
 * behind it; what was looked at is not looked at again.  After any other answer the same call answers the same.
 * at_end: nothing will come behind data.  The members that describe the record stay valid until
 * pgos_splitter_next().
 */
extern PgosSplit pgos_splitter_scan(PgosSplitter *splitter, const char *data, size_t size,
									bool at_end, size_t *len, size_t *data_len);

/* Forgets the record: the next scan is of another. */
extern void pgos_splitter_next(PgosSplitter *splitter);

#endif

/*
 * record_split.c
 *		Cuts a stream of COPY's csv or text format into records.
 */
#include "core/record_split.h"

#include "mb/pg_wchar.h"

/* Bytes of a line end of any kind at p, or 0. */
static int
any_line_end(const char *p, const char *end)
{
	if (p < end && *p == '\n')
		return 1;
	if (p < end && *p == '\r')
		return p + 1 < end && p[1] == '\n' ? 2 : 1;
	return 0;
}

/* A line end of the kind that the stream has, counted as COPY counts it inside of quotes. */
static inline bool
counts_as_line(const PgosSplitter *splitter, char c)
{
	return c == (splitter->eol == PGOS_EOL_NL ? '\n' : '\r');
}

/*
 * Line end at p outside of quotes.  0: none of this stream's kind, so a character like others.  -1: the next
 * character must be seen.
 */
static int
line_end(PgosSplitter *splitter, const char *p, const char *end, bool at_end)
{
	bool		crnl;

	if (*p == '\n')
	{
		if (splitter->eol == PGOS_EOL_UNKNOWN)
			splitter->eol = PGOS_EOL_NL;
		return splitter->eol == PGOS_EOL_CR ? 0 : 1;
	}
	if (splitter->eol == PGOS_EOL_NL)
		return 0;
	if (splitter->eol == PGOS_EOL_CR)
		return 1;
	if (p + 1 == end && !at_end)
		return -1;
	crnl = p + 1 < end && p[1] == '\n';
	if (splitter->eol == PGOS_EOL_UNKNOWN)
		splitter->eol = crnl ? PGOS_EOL_CRNL : PGOS_EOL_CR;
	if (crnl)
		return 2;
	return splitter->eol == PGOS_EOL_CR ? 1 : 0;
}

PgosSplit
pgos_splitter_scan(PgosSplitter *splitter, const char *data, size_t size, bool at_end, size_t *len,
				   size_t *data_len)
{
	const char *p = data + splitter->scanned;
	const char *end = data + size;
	bool		toggles = splitter->csv;
	char		quote = splitter->quote;
	char		escape = splitter->escape == quote ? '\0' : splitter->escape;

	*data_len = 0;
	while (p < end)
	{
		char		c = *p;

		if (splitter->encoding >= 0 && IS_HIGHBIT_SET(c))
		{
			int			bytes = pg_encoding_mblen(splitter->encoding, p);

			if (end - p < bytes && !at_end)
				goto more;
			p += Min(bytes, end - p);
			continue;
		}
		if (toggles && c == quote)
		{
			splitter->in_quote = !splitter->in_quote;
			p++;
			continue;
		}
		if (splitter->in_quote)
		{
			if (escape != '\0' && c == escape)
			{
				/* what it escapes is no quote; anything else is looked at for itself */
				if (p + 1 == end && !at_end)
					goto more;
				p++;
				if (p < end && (*p == quote || *p == escape))
					p++;
				continue;
			}
			if ((c == '\n' || c == '\r') && counts_as_line(splitter, c))
			{
				splitter->newlines++;
				if (splitter->first_line == 0)
					splitter->first_line = p + 1 - data;
			}
			p++;
			continue;
		}
		if (c == '\n' || c == '\r')
		{
			int			n = line_end(splitter, p, end, at_end);

			if (n < 0)
				goto more;
			if (n > 0)
			{
				*len = p + n - data;
				return PGOS_SPLIT_RECORD;
			}
		}
		else if (c == '\\' && (!splitter->csv || (p == data && !splitter->cut)))
		{
			/* the marker is two characters and a line end of one or two */
			if (end - p < 4 && !at_end)
				goto more;
			if (splitter->marker && end - p >= 2 && p[1] == '.')
			{
				int			n = any_line_end(p + 2, end);

				if (n > 0)
				{
					*data_len = p - data;
					*len = p + 2 + n - data;
					return PGOS_SPLIT_MARKER;
				}
			}
			if (!splitter->csv && end - p >= 2)
				p++;
		}
		p++;
	}
	if (!at_end)
		goto more;
	*len = size;
	if (size == 0)
		return PGOS_SPLIT_END;
	return splitter->in_quote ? PGOS_SPLIT_OPEN_QUOTE : PGOS_SPLIT_RECORD;

more:
	splitter->scanned = p - data;
	return PGOS_SPLIT_MORE;
}

void
pgos_splitter_next(PgosSplitter *splitter)
{
	splitter->scanned = 0;
	splitter->cut = false;
	splitter->in_quote = false;
	splitter->newlines = 0;
	splitter->first_line = 0;
}

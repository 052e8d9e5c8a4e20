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
	bool crnl;

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

/* Marks the bytes that need a look; all others are passed over. */
static void
prepare(PgosSplitter *splitter)
{
	splitter->prepared = true;
	splitter->special['\n'] = splitter->special['\r'] = true;
	if (splitter->csv)
	{
		splitter->special[(unsigned char) splitter->quote] = true;
		splitter->special[(unsigned char) splitter->escape] = true;
	}
	else
		splitter->special['\\'] = true;
	if (splitter->encoding >= 0)
		memset(splitter->special + 0x80, true, 0x80);
}

/* At a backslash: whether it begins the marker, of *len bytes.  -1: more must be seen. */
static int
is_marker(const PgosSplitter *splitter, const char *p, const char *end, bool at_end, size_t *len)
{
	int n;

	/* two characters and a line end of one or two */
	if (end - p < 4 && !at_end)
		return -1;
	if (!splitter->marker || end - p < 2 || p[1] != '.')
		return 0;
	n = any_line_end(p + 2, end);
	*len = 2 + n;
	return n > 0;
}

PgosSplit
pgos_splitter_scan(PgosSplitter *splitter, const char *data, size_t size, bool at_end, size_t *len,
				   size_t *data_len)
{
	const char *p = data + splitter->scanned;
	const char *end = data + size;
	char		quote = splitter->quote;
	char		escape = splitter->escape == quote ? '\0' : splitter->escape;

	if (!splitter->prepared)
		prepare(splitter);
	*data_len = 0;
	if (splitter->csv && !splitter->cut && p == data && size > 0 && *p == '\\')
	{
		int marker = is_marker(splitter, p, end, at_end, len);

		if (marker < 0)
			return PGOS_SPLIT_MORE;
		if (marker > 0)
			return PGOS_SPLIT_MARKER;
	}
	for (;;)
	{
		char c;

		while (p < end && !splitter->special[(unsigned char) *p])
			p++;
		if (p == end)
			break;
		c = *p;
		if (splitter->encoding >= 0 && IS_HIGHBIT_SET(c))
		{
			int bytes = pg_encoding_mblen(splitter->encoding, p);

			if (end - p < bytes && !at_end)
				goto more;
			p += Min(bytes, end - p);
		}
		else if (splitter->csv && c == quote)
		{
			splitter->in_quote = !splitter->in_quote;
			p++;
		}
		else if (splitter->in_quote)
		{
			p++;
			if (escape != '\0' && c == escape)
			{
				/* what it escapes is no quote; anything else is looked at for itself */
				if (p == end && !at_end)
				{
					p--;
					goto more;
				}
				if (p < end && (*p == quote || *p == escape))
					p++;
			}
			else if ((c == '\n' || c == '\r') && counts_as_line(splitter, c))
			{
				splitter->newlines++;
				if (splitter->first_line == 0)
					splitter->first_line = p - data;
			}
		}
		else if (c == '\n' || c == '\r')
		{
			int n = line_end(splitter, p, end, at_end);

			if (n < 0)
				goto more;
			if (n > 0)
			{
				*len = p + n - data;
				splitter->scanned = p - data;
				return PGOS_SPLIT_RECORD;
			}
			p++;
		}
		else if (!splitter->csv)
		{
			int marker = is_marker(splitter, p, end, at_end, len);

			if (marker < 0)
				goto more;
			if (marker > 0)
			{
				*data_len = p - data;
				*len += p - data;
				splitter->scanned = p - data;
				return PGOS_SPLIT_MARKER;
			}
			p += Min(2, end - p);
		}
		else
			p++;
	}
	splitter->scanned = p - data;
	if (!at_end)
		return PGOS_SPLIT_MORE;
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

/*
 * decode.c
 *		The direct decoder: records, fields, and the row of values.
 *
 * The rules are those of CopyReadLineText() and CopyReadAttributesCSV()/Text(), in one pass: in text a backslash
 * takes the next byte with it, in csv quotes toggle.  All server encodings have the high bit in every byte of their
 * multibyte characters, so bytes are looked at one by one.
 *
 * Fields stay where they are in the caller's buffer.  An input function wants a string: the byte behind the field
 * is made its end and put back.
 *
 * Runs in a worker; raises what the input functions raise.
 */
#include "postgres.h"

#include "compat.h"
#include "copy/decode_internal.h"
#include "mb/pg_wchar.h"
#include "utils/rel.h"

const char *
pgos_decoder_refusal(CopyFromState cstate)
{
	const CopyFormatOptions *options = &cstate->opts;

	if (options->binary)
		return "binary format";
	if (cstate->file_encoding != GetDatabaseEncoding())
		return "the encoding is not the database's";
	if (cstate->attnumlist == NIL)
		return "there are no columns";
	if (options->force_notnull != NIL || options->force_null != NIL ||
		PGOS_COMPAT_COPY_FORCES_ALL(options))
		return "option force_null or force_not_null";
	if (PGOS_COMPAT_COPY_HAS_DEFAULT(options))
		return "option default";
	if (cstate->volatile_defexprs)
		return "a default is volatile";
	return NULL;
}

PgosDecoder *
pgos_decoder_new(CopyFromState cstate)
{
	PgosDecoder				*dec = palloc0(sizeof(PgosDecoder));
	const CopyFormatOptions *options = &cstate->opts;
	ListCell				*lc;

	dec->cstate = cstate;
	dec->csv = options->csv_mode;
	dec->marker = PGOS_COMPAT_COPY_CSV_MARKER;
	dec->delimiter = options->delim[0];
	dec->quote = dec->csv ? options->quote[0] : '\\';
	dec->escape = dec->csv ? options->escape[0] : '\\';
	dec->null_print = options->null_print;
	dec->null_len = options->null_print_len;
	pgos_marks_init(&dec->between, dec->delimiter, dec->quote, '\n', '\r');
	pgos_marks_init(&dec->inside, dec->quote, dec->escape, '\n', '\r');
	pgos_escape_init(&dec->escapes, dec->delimiter, dec->quote, dec->escape);
	dec->columns = palloc0(list_length(cstate->attnumlist) * sizeof(PgosDecodeColumn));
	dec->fields = palloc(list_length(cstate->attnumlist) * sizeof(PgosField));
	dec->scratch = palloc(PGOS_DECODE_SCRATCH);
	dec->scratch_end = dec->scratch + PGOS_DECODE_SCRATCH;
	foreach (lc, cstate->attnumlist)
	{
		PgosDecodeColumn *col = &dec->columns[dec->count++];
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(cstate->rel), lfirst_int(lc) - 1);

		col->index = lfirst_int(lc) - 1;
		col->typmod = att->atttypmod;
		col->name = NameStr(att->attname);
		col->in = &cstate->in_functions[col->index];
		col->ioparam = cstate->typioparams[col->index];
		col->call_null = !col->in->fn_strict;
		pgos_decode_choose(col, att);
	}
	return dec;
}

const char *
pgos_decoder_oddity(const PgosDecoder *dec)
{
	return dec->oddity;
}

/* ---------------------------------------------------------------- records */

static PgosDecodeResult
pgos_decode_odd(PgosDecoder *dec, const char *oddity)
{
	dec->oddity = oddity;
	return PGOS_DECODE_ODD;
}

/* The line end at p; *len: its bytes. */
static inline PgosDecodeResult
pgos_decode_line_end(PgosDecoder *dec, const char *p, const char *end, PgosEol *eol, size_t *len)
{
	if (*p == '\n')
	{
		if (*eol == PGOS_EOL_UNKNOWN)
			*eol = PGOS_EOL_NL;
		*len = 1;
		return *eol == PGOS_EOL_NL ? PGOS_DECODE_RECORD : pgos_decode_odd(dec, "a bare line feed");
	}
	if (*eol != PGOS_EOL_NL && p + 1 >= end)
		return PGOS_DECODE_MORE;
	if (*eol == PGOS_EOL_NL || *eol == PGOS_EOL_CR || p[1] != '\n')
		return pgos_decode_odd(dec, "a bare carriage return");
	*eol = PGOS_EOL_CRNL;
	*len = 2;
	return PGOS_DECODE_RECORD;
}

/*
 * The quote that ends what the one at p begins, or NULL: it is not within the data.  *escaped: there are others in
 * between.
 */
static const char *
pgos_decode_closing_quote(PgosDecoder *dec, const char *p, const char *end, char newline,
						  bool *escaped, uint64 *newlines)
{
	for (;;)
	{
		p = pgos_marks_find(&dec->inside, p + 1, end);
		if (p + 1 >= end)
			return NULL;
		if (*p == dec->escape && (p[1] == dec->quote || p[1] == dec->escape))
		{
			*escaped = true;
			p++;
		}
		else if (*p == dec->quote)
			return p;
		else if (*p == newline)
			(*newlines)++;
	}
}

/* csv: from a quote to behind the one that ends it. */
static inline PgosDecodeResult
pgos_decode_quoted(PgosDecoder *dec, const char **p, const char *begin, const char *end,
				   char newline, PgosFieldKind *kind, uint64 *newlines)
{
	bool		escaped = *kind != PGOS_FIELD_PLAIN || *p > begin;
	const char *close = pgos_decode_closing_quote(dec, *p, end, newline, &escaped, newlines);

	if (close == NULL)
		return PGOS_DECODE_MORE;
	*p = close + 1;
	*kind = escaped || !dec->between.is_mark[(uint8) * *p] ? PGOS_FIELD_ESCAPED : PGOS_FIELD_QUOTED;
	return PGOS_DECODE_RECORD;
}

/* text: over a backslash and the byte that it takes with it. */
static inline PgosDecodeResult
pgos_decode_escaped(PgosDecoder *dec, const char **p, const char *end, PgosFieldKind *kind)
{
	char c;

	if (unlikely(*p + 1 >= end))
		return PGOS_DECODE_MORE;
	c = (*p)[1];
	/* line ends, the end-of-data marker, and bytes by number, which may be any */
	if (unlikely((c >= '0' && c <= '7') || c == 'x' || c == '.' || c == '\n' || c == '\r'))
		return pgos_decode_odd(dec, "an unusual escape");
	*p += 2;
	*kind = PGOS_FIELD_ESCAPED;
	return PGOS_DECODE_RECORD;
}

/* Cuts it into fields, up to its line end.  RECORD: that is found. */
static PgosDecodeResult
pgos_decode_fields(PgosDecoder *dec, char *data, const char *end, char newline,
				   PgosDecodeRecord *record)
{
	PgosField	 *field = dec->fields;
	PgosField	 *last = field + dec->count - 1;
	PgosFieldKind kind = PGOS_FIELD_PLAIN;
	char		 *begin = data;
	const char	 *p;
	PgosMarkWalk  walk;

	if (unlikely(data >= end))
		return PGOS_DECODE_MORE;
	pgos_mark_walk_begin(&walk, &dec->between, data);
	for (;;)
	{
		p = pgos_mark_walk_next(&walk, &dec->between, end);
		if (unlikely(p >= end))
			return PGOS_DECODE_MORE;
		if (*p == dec->quote)
		{
			PgosDecodeResult result = dec->csv ? pgos_decode_quoted(dec, &p, begin, end, newline,
																	&kind, &record->newlines)
											   : pgos_decode_escaped(dec, &p, end, &kind);

			if (unlikely(result != PGOS_DECODE_RECORD))
				return result;
			if (unlikely(p >= end))
				return PGOS_DECODE_MORE;
			pgos_mark_walk_skip(&walk, &dec->between, p);
			continue;
		}
		field->src = begin + (kind == PGOS_FIELD_QUOTED);
		field->len = p - begin - 2 * (kind == PGOS_FIELD_QUOTED);
		field->kind = kind;
		if (*p != dec->delimiter)
			break;
		if (unlikely(field == last))
			return pgos_decode_odd(dec, "too many fields");
		field++;
		kind = PGOS_FIELD_PLAIN;
		begin = data + (p + 1 - data);
	}
	record->data_len = p - data;
	if (unlikely(field != last))
		return pgos_decode_odd(dec, "too few fields");
	return PGOS_DECODE_RECORD;
}

PgosDecodeResult
pgos_decoder_split(PgosDecoder *dec, char *data, const char *end, PgosEol *eol,
				   PgosDecodeRecord *record)
{
	PgosDecodeResult result;
	size_t			 line_end = 0;

	record->newlines = 0;
	if (dec->csv && dec->marker && end - data > 2 && memcmp(data, "\\.", 2) == 0 &&
		(data[2] == '\n' || data[2] == '\r'))
		result = pgos_decode_odd(dec, "the end-of-data marker");
	else
		result = pgos_decode_fields(dec, data, end, *eol == PGOS_EOL_NL ? '\n' : '\r', record);
	if (result == PGOS_DECODE_RECORD)
		result = pgos_decode_line_end(dec, data + record->data_len, end, eol, &line_end);
	record->len = record->data_len + line_end;
	return result;
}

/* ---------------------------------------------------------------- values */

/* Takes quotes and their escapes away: returns the bytes that are left. */
static size_t
pgos_decode_unquote(PgosDecoder *dec, const char *src, const char *end, char *dst)
{
	char *p = dst;
	bool  quoted = false;

	while (src < end)
	{
		const char *stop = src;

		if (quoted)
			stop = pgos_copy_plain(&dec->escapes, PGOS_IN_QUOTES, p, src, end);
		p += stop - src;
		if (stop == end)
			break;
		src = stop + 1;
		if (quoted && *stop == dec->escape && src < end &&
			(*src == dec->quote || *src == dec->escape))
			*p++ = *src++;
		else if (*stop == dec->quote)
			quoted = !quoted;
		else
			*p++ = *stop;
	}
	return p - dst;
}

/* Takes backslashes away: returns the bytes that are left. */
static size_t
pgos_decode_unescape(PgosDecoder *dec, const char *src, const char *end, char *dst)
{
	char *p = dst;

	for (;;)
	{
		const char *stop = pgos_copy_plain(&dec->escapes, PGOS_IN_TEXT, p, src, end);
		char		c;

		p += stop - src;
		if (stop == end)
			return p - dst;
		c = *stop;
		src = stop + 1;
		if (c == '\\')
		{
			c = *src++;
			switch (c)
			{
				case 'b':
					c = '\b';
					break;
				case 'f':
					c = '\f';
					break;
				case 'n':
					c = '\n';
					break;
				case 'r':
					c = '\r';
					break;
				case 't':
					c = '\t';
					break;
				case 'v':
					c = '\v';
					break;
				default:
					break;
			}
		}
		*p++ = c;
	}
}

Datum
pgos_decode_by_function(PgosDecoder *dec, PgosDecodeColumn *col, char *text)
{
	Datum value;

	dec->cstate->cur_attname = col->name;
	dec->cstate->cur_attval = text;
	value = InputFunctionCall(col->in, text, col->ioparam, col->typmod);
	dec->cstate->cur_attname = NULL;
	dec->cstate->cur_attval = NULL;
	return value;
}

static inline bool
pgos_decode_is_null(const PgosDecoder *dec, const PgosField *field)
{
	if (field->len != dec->null_len || (dec->csv && field->kind != PGOS_FIELD_PLAIN))
		return false;
	return memcmp(field->src, dec->null_print, field->len) == 0;
}

/* The text of a field with escapes, in memory that may become its value; *len: its bytes. */
static char *
pgos_decode_plain_text(PgosDecoder *dec, const PgosField *field, size_t *len)
{
	char	   *dst = pgos_decode_alloc(dec, field->len + VARHDRSZ + 1) + VARHDRSZ;
	const char *end = field->src + field->len;

	*len = dec->csv ? pgos_decode_unquote(dec, field->src, end, dst)
					: pgos_decode_unescape(dec, field->src, end, dst);
	return dst;
}

void
pgos_decoder_values(PgosDecoder *dec, Datum *values, bool *isnull)
{
	dec->free = dec->scratch;
	for (int i = 0; i < dec->count; i++)
	{
		PgosDecodeColumn *col = &dec->columns[i];
		const PgosField	 *field = &dec->fields[i];
		Datum			 *value = &values[col->index];
		char			 *src = field->src;
		size_t			  len = field->len;
		char			  behind;

		if (pgos_decode_is_null(dec, field))
		{
			isnull[col->index] = true;
			*value = (Datum) 0;
			if (unlikely(col->call_null))
				*value = pgos_decode_by_function(dec, col, NULL);
			continue;
		}
		isnull[col->index] = false;
		dec->own_text = field->kind == PGOS_FIELD_ESCAPED;
		if (dec->own_text)
			src = pgos_decode_plain_text(dec, field, &len);
		if (col->decode != NULL && col->decode(dec, col, src, len, value))
			continue;
		behind = src[len];
		src[len] = '\0';
		*value = pgos_decode_by_function(dec, col, src);
		src[len] = behind;
	}
}

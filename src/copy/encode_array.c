/*
 * encode_array.c
 *		The direct encoder: arrays of one dimension.
 *
 * Writes the text of array_out(), with its quotes and escapes and those of COPY in one pass, under the conditions of
 * encode_json.c.  In csv whether the field is quoted must be known at its beginning: an array of two elements or more
 * has a comma, the delimiter, and is.  Other arrays, those of more dimensions or whose first subscript is not
 * 1, and those of types that are not here, go to array_out().
 *
 *		in the array				in text			in csv, quoted
 *		quotation mark of an element	"				""
 *		\" in an element			\\"				\""
 *		\\							\\\\			\\
 *
 * Runs in a worker; raises.
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "catalog/pg_type.h"
#include "copy/encode_internal.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

/* The column's state: what is known of the elements. */
typedef struct PgosEncodeElement
{
	PgosEncodeColumn col;
	int16			 typlen;
	char			 typalign;
	bool			 is_text;
} PgosEncodeElement;

/* What an array must quote; of bytes that are not plain there. */
static bool
pgos_array_needs_quotes(const char *src, size_t len)
{
	if (len == 0 || (len == 4 && pg_strncasecmp(src, "NULL", 4) == 0))
		return true;
	for (size_t i = 0; i < len; i++)
	{
		if (strchr("\"\\{}, \t\n\r\v\f", src[i]) != NULL)
			return true;
	}
	return false;
}

/* A piece of an element, its quotation marks and backslashes escaped for the array. */
static char *
pgos_array_piece(PgosEncoder *enc, const char *src, size_t len, char *p)
{
	const char *end = src + len;

	for (;;)
	{
		const char *stop = pgos_copy_plain(&enc->escape, PGOS_IN_JSON, p, src, end);
		char		c;

		p += stop - src;
		if (stop == end)
			return p;
		c = *stop;
		src = stop + 1;
		if (c == '"' || c == '\\')
		{
			*p++ = '\\';
			if (!enc->csv)
				*p++ = '\\';
			/* and the byte itself, for COPY */
			if (enc->csv ? c == '"' : c == '\\')
				*p++ = c;
		}
		else if (!enc->csv && c >= 0x08 && c <= 0x0d)
		{
			*p++ = '\\';
			c = "btnvfr"[c - 0x08];
		}
		else if (!enc->csv && c == enc->delimiter)
			*p++ = '\\';
		*p++ = c;
	}
}

char *
pgos_encode_array_text(PgosEncoder *enc, const char *src, size_t len, char *p)
{
	bool quote;

	if (likely((size_t) (enc->end - p) >= len + PGOS_ENCODE_SLACK && len != 0 && len != 4) &&
		likely(pgos_copy_plain(&enc->escape, PGOS_IN_ARRAY, p, src, src + len) == src + len))
		return p + len;
	p = pgos_encode_room(enc, p, PGOS_ENCODE_ROOM);
	quote = pgos_array_needs_quotes(src, len);
	if (quote)
		p = pgos_encode_mark(enc, p);
	for (;;)
	{
		size_t piece = Min(len, PGOS_ENCODE_PIECE);

		p = pgos_encode_room(enc, p, 4 * piece + PGOS_ENCODE_SLACK);
		p = pgos_array_piece(enc, src, piece, p);
		if (piece == len)
			break;
		src += piece;
		len -= piece;
	}
	return quote ? pgos_encode_mark(enc, p) : p;
}

static char *
pgos_array_elements(PgosEncoder *enc, PgosEncodeElement *element, ArrayType *array, int count,
					char *p)
{
	const char *data = ARR_DATA_PTR(array);
	bits8	   *nulls = ARR_NULLBITMAP(array);

	for (int i = 0; i < count; i++)
	{
		p = pgos_encode_room(enc, p, PGOS_ENCODE_ROOM);
		*p++ = i == 0 ? '{' : ',';
		if (nulls != NULL && att_isnull(i, nulls))
		{
			memcpy(p, "NULL", 4);
			p += 4;
			continue;
		}
		data = (const char *) att_align_nominal(data, element->typalign);
		if (element->typlen > 0)
		{
			p = element->col.encode(enc, &element->col, data, element->typlen, p);
			data += element->typlen;
		}
		else
		{
			if (element->is_text)
				p = pgos_encode_array_text(enc, VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data), p);
			else
				p = element->col.encode(enc, &element->col, VARDATA_ANY(data),
										VARSIZE_ANY_EXHDR(data), p);
			data += VARSIZE_ANY(data);
		}
	}
	p = pgos_encode_room(enc, p, PGOS_ENCODE_ROOM);
	*p++ = '}';
	return p;
}

char *
pgos_encode_array(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	PgosEncodeElement *element = col->state;
	ArrayType		  *array;
	int				   count;
	union
	{
		int64 align;
		char  data[VARATT_SHORT_MAX + VARHDRSZ];
	} copy;

	value = pgos_encode_detoast(enc, value);
	if (VARATT_IS_SHORT(value))
	{
		/* aligned, as ArrayType wants it */
		SET_VARSIZE(copy.data, VARSIZE_SHORT(value) - VARHDRSZ_SHORT + VARHDRSZ);
		memcpy(copy.data + VARHDRSZ, VARDATA_SHORT(value), VARSIZE_SHORT(value) - VARHDRSZ_SHORT);
		value = copy.data;
	}
	array = (ArrayType *) unconstify(char *, value);
	count = ARR_NDIM(array) == 1 ? ARR_DIMS(array)[0] : 0;
	if (count < (enc->csv ? 2 : 1) || ARR_LBOUND(array)[0] != 1)
		return pgos_encode_by_function(enc, col, value, len, p);

	if (enc->csv)
		*p++ = '"';
	enc->in_array = true;
	p = pgos_array_elements(enc, element, array, count, p);
	enc->in_array = false;
	if (enc->csv)
		*p++ = '"';
	return p;
}

bool
pgos_encode_array_prepare(PgosEncoder *enc, PgosEncodeColumn *col, Oid type)
{
	PgosEncodeElement *element = palloc0(sizeof(PgosEncodeElement));
	Oid				   element_type = get_element_type(getBaseType(type));
	Oid				   out;
	Oid				   ioparam;
	bool			   byval;
	char			   delimiter;

	if (!OidIsValid(element_type) || !pgos_encode_marks_fit(enc) ||
		(enc->csv && enc->delimiter != ','))
		return false;
	get_type_io_data(element_type, IOFunc_output, &element->typlen, &byval, &element->typalign,
					 &delimiter, &ioparam, &out);
	if (delimiter != ',')
		return false;
	element->col.attlen = element->typlen;
	element->col.attbyval = byval;
	pgos_encode_choose(enc, &element->col, element_type);
	switch (out)
	{
		case F_TEXTOUT:
		case F_VARCHAROUT:
			element->is_text = true;
			break;
		case F_BOOLOUT:
		case F_INT2OUT:
		case F_INT4OUT:
		case F_INT8OUT:
		case F_OIDOUT:
		case F_FLOAT4OUT:
		case F_FLOAT8OUT:
		case F_NUMERIC_OUT:
		case F_DATE_OUT:
		case F_UUID_OUT:
			/* never blank, and only letters, digits, "+-." and what their output functions are asked for */
			break;
		default:
			return false;
	}
	if (element->col.encode == pgos_encode_by_function)
		return false;
	col->state = element;
	return true;
}

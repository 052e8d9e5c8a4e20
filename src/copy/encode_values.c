/*
 * encode_values.c
 *		The direct encoder: values of each type, as their output functions would write them.
 *
 * A function is chosen by the type's output function, so that domains come with their base type.  Settings that
 * change the text (DateStyle, extra_float_digits, bytea_output, TimeZone) are looked at for every value, for
 * a function in a view may change them between two rows.  Values outside of what a direct encoder knows (years
 * before 1 or after 9999, infinite times) go to the output function, one by one.
 *
 * Runs in a worker; raises.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/tupmacs.h"
#include "common/shortest_dec.h"
#include "copy/encode_internal.h"
#include "datatype/timestamp.h"
#include "miscadmin.h"
#include "pgtime.h"
#include "utils/bytea.h"
#include "utils/date.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

/* Days from 1 March of the year 0 to 1 January 2000; the first day of the year 1 and the last of 9999 since 2000. */
#define PGOS_EPOCH_DAY 730425
#define PGOS_FIRST_DATE (-730119)
#define PGOS_LAST_DATE 2921939

#define PGOS_ENUM_SLOTS 256

/* A label as it is written; slot by the value's OID. */
typedef struct PgosEnumLabel
{
	Oid	  value;
	int	  len;
	char *text;
} PgosEnumLabel;

/* ---------------------------------------------------------------- text */

/* A piece of a value in text format. */
static inline char *
pgos_encode_text_piece(PgosEncoder *enc, const char *src, size_t len, char *p)
{
	const char *end = src + len;

	for (;;)
	{
		const char *stop = pgos_copy_plain(&enc->escape, PGOS_IN_TEXT, p, src, end);
		char		c;

		p += stop - src;
		if (stop == end)
			return p;
		c = *stop;
		/* \b to \r by letter, a delimiter among them too */
		if (c >= 0x08 && c <= 0x0d)
			c = "btnvfr"[c - 0x08];
		*p++ = '\\';
		*p++ = c;
		src = stop + 1;
	}
}

/* A piece of a quoted value in csv. */
static inline char *
pgos_encode_quoted_piece(PgosEncoder *enc, const char *src, size_t len, char *p)
{
	const char *end = src + len;

	for (;;)
	{
		const char *stop = pgos_copy_plain(&enc->escape, PGOS_IN_QUOTES, p, src, end);

		p += stop - src;
		if (stop == end)
			return p;
		*p++ = enc->escape.escape;
		*p++ = *stop;
		src = stop + 1;
	}
}

static char *
pgos_encode_csv(PgosEncoder *enc, PgosEncodeColumn *col, const char *src, size_t len, char *p)
{
	bool quote = col->force_quote;

	if (len == (size_t) enc->null_len && memcmp(src, enc->null_print, len) == 0)
		quote = true;
	if (enc->single && len == 2 && memcmp(src, "\\.", 2) == 0)
		quote = true;
	if (!quote && len <= PGOS_ENCODE_PIECE)
	{
		/* in hope that it needs no quotes */
		p = pgos_encode_room(enc, p, len + PGOS_ENCODE_SLACK);
		if (pgos_copy_plain(&enc->escape, PGOS_IN_CSV, p, src, src + len) == src + len)
			return p + len;
		quote = true;
	}
	if (!quote)
		quote = pgos_has_special(&enc->escape, PGOS_IN_CSV, src, src + len);

	p = pgos_encode_room(enc, p, PGOS_ENCODE_ROOM);
	if (quote)
		*p++ = enc->escape.quote;
	for (;;)
	{
		size_t piece = Min(len, PGOS_ENCODE_PIECE);

		p = pgos_encode_room(enc, p, 2 * piece + PGOS_ENCODE_SLACK);
		if (quote)
			p = pgos_encode_quoted_piece(enc, src, piece, p);
		else
		{
			memcpy(p, src, piece);
			p += piece;
		}
		if (piece == len)
			break;
		src += piece;
		len -= piece;
	}
	if (quote)
		*p++ = enc->escape.quote;
	return p;
}

char *
pgos_encode_bytes(PgosEncoder *enc, PgosEncodeColumn *col, const char *src, size_t len, char *p)
{
	if (enc->csv)
		return pgos_encode_csv(enc, col, src, len, p);
	while (unlikely(len > PGOS_ENCODE_PIECE))
	{
		p = pgos_encode_room(enc, p, 2 * PGOS_ENCODE_PIECE + PGOS_ENCODE_SLACK);
		p = pgos_encode_text_piece(enc, src, PGOS_ENCODE_PIECE, p);
		src += PGOS_ENCODE_PIECE;
		len -= PGOS_ENCODE_PIECE;
	}
	p = pgos_encode_room(enc, p, 2 * len + PGOS_ENCODE_SLACK);
	return pgos_encode_text_piece(enc, src, len, p);
}

char *
pgos_encode_by_function(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len,
						char *p)
{
	Datum		datum = fetch_att(value, col->attbyval, col->attlen);
	const char *text;

	enc->row_dirty = true;
	text = OutputFunctionCall(col->out, datum);
	if (unlikely(enc->in_array))
		return pgos_encode_array_text(enc, text, strlen(text), p);
	return pgos_encode_bytes(enc, col, text, strlen(text), p);
}

const char *
pgos_encode_detoast(PgosEncoder *enc, const char *value)
{
	if (likely(!VARATT_IS_EXTERNAL(value) && !VARATT_IS_COMPRESSED(value)))
		return value;
	enc->row_dirty = true;
	return (const char *) detoast_attr((struct varlena *) unconstify(char *, value));
}

/* text, varchar, bpchar, json.  Most values are short and go as they are. */
static char *
pgos_encode_text(PgosEncoder *enc, PgosEncodeColumn *col, const char *data, size_t len, char *p)
{
	if (likely((size_t) (enc->end - p) >= len + PGOS_ENCODE_SLACK) &&
		likely(pgos_copy_plain(&enc->escape, PGOS_IN_TEXT, p, data, data + len) == data + len))
		return p + len;
	return pgos_encode_bytes(enc, col, data, len, p);
}

/* The same for csv without FORCE_QUOTE.  Of the length of the string for NULL, or a value alone in its row: look closer. */
static char *
pgos_encode_csv_text(PgosEncoder *enc, PgosEncodeColumn *col, const char *data, size_t len, char *p)
{
	if (likely((size_t) (enc->end - p) >= len + PGOS_ENCODE_SLACK) &&
		likely(len != (size_t) enc->null_len && !enc->single) &&
		likely(pgos_copy_plain(&enc->escape, PGOS_IN_CSV, p, data, data + len) == data + len))
		return p + len;
	return pgos_encode_csv(enc, col, data, len, p);
}

static char *
pgos_encode_name(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	return pgos_encode_bytes(enc, col, value, strlen(value), p);
}

static char *
pgos_encode_char(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	/* these as \ooo */
	if (IS_HIGHBIT_SET(*value))
		return pgos_encode_by_function(enc, col, value, len, p);
	return pgos_encode_bytes(enc, col, value, *value == '\0' ? 0 : 1, p);
}

static char *
pgos_encode_enum(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	PgosEnumLabel *labels = col->state;
	PgosEnumLabel *label;
	Oid			   oid;

	memcpy(&oid, value, sizeof(oid));
	label = &labels[oid % PGOS_ENUM_SLOTS];
	if (label->value != oid)
	{
		const char *text = OutputFunctionCall(col->out, ObjectIdGetDatum(oid));
		char	   *begin;

		enc->row_dirty = true;
		label->value = InvalidOid;
		/* a label has at most NAMEDATALEN - 1 bytes, so all of it will be in one window */
		begin = pgos_encode_room(enc, p, 2 * NAMEDATALEN + PGOS_ENCODE_SLACK + PGOS_ENCODE_ROOM);
		p = pgos_encode_bytes(enc, col, text, strlen(text), begin);
		if (label->text == NULL)
			label->text = MemoryContextAlloc(enc->context, 2 * NAMEDATALEN + PGOS_ENCODE_SLACK);
		label->len = p - begin;
		memcpy(label->text, begin, label->len);
		label->value = oid;
		return p;
	}
	p = pgos_encode_room(enc, p, label->len + PGOS_ENCODE_SLACK);
	memcpy(p, label->text, label->len);
	return p + label->len;
}

static char *
pgos_encode_bytea(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	const char *src;

	if (bytea_output != BYTEA_OUTPUT_HEX)
		return pgos_encode_by_function(enc, col, value, len, p);
	value = pgos_encode_detoast(enc, value);
	src = VARDATA_ANY(value);
	len = VARSIZE_ANY_EXHDR(value);
	*p++ = '\\';
	if (!enc->csv)
		*p++ = '\\';
	*p++ = 'x';
	for (;;)
	{
		size_t piece = Min(len, PGOS_ENCODE_PIECE);

		p = pgos_encode_room(enc, p, 2 * piece + PGOS_ENCODE_SLACK);
		p = pgos_put_hex(p, src, piece);
		if (piece == len)
			return p;
		src += piece;
		len -= piece;
	}
}

static char *
pgos_encode_uuid(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	p = pgos_put_hex(p, value, 4);
	for (int i = 4; i < 10; i += 2)
	{
		*p++ = '-';
		p = pgos_put_hex(p, value + i, 2);
	}
	*p++ = '-';
	return pgos_put_hex(p, value + 10, 6);
}

/* ---------------------------------------------------------------- numbers */

static char *
pgos_encode_bool(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	*p = *value ? 't' : 'f';
	return p + 1;
}

static char *
pgos_encode_int2(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	int16 v;

	memcpy(&v, value, sizeof(v));
	return pgos_put_int(p, v);
}

static char *
pgos_encode_int4(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	int32 v;

	memcpy(&v, value, sizeof(v));
	return pgos_put_int(p, v);
}

static char *
pgos_encode_int8(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	int64 v;

	memcpy(&v, value, sizeof(v));
	return pgos_put_int(p, v);
}

static char *
pgos_encode_oid(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	Oid v;

	memcpy(&v, value, sizeof(v));
	return pgos_put_uint(p, v);
}

static char *
pgos_encode_float4(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	float4 v;

	if (extra_float_digits <= 0)
		return pgos_encode_by_function(enc, col, value, len, p);
	memcpy(&v, value, sizeof(v));
	return p + float_to_shortest_decimal_bufn(v, p);
}

static char *
pgos_encode_float8(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	float8 v;

	if (extra_float_digits <= 0)
		return pgos_encode_by_function(enc, col, value, len, p);
	memcpy(&v, value, sizeof(v));
	return p + double_to_shortest_decimal_bufn(v, p);
}

/* The next digit; zero behind the last. */
static inline uint32
pgos_numeric_digit(const char **digits, const char *end)
{
	uint16 digit = 0;

	if (*digits < end)
	{
		memcpy(&digit, *digits, sizeof(digit));
		*digits += sizeof(digit);
	}
	return digit;
}

/* The digits; writes up to three bytes more. */
static pg_attribute_always_inline char *
pgos_put_numeric(char *p, const char *digits, const char *end, int weight, int dscale)
{
	if (weight < 0)
		*p++ = '0';
	else
	{
		p = pgos_put_small(p, pgos_numeric_digit(&digits, end));
		for (int n = 0; n < weight; n++)
			p = pgos_put4(p, pgos_numeric_digit(&digits, end));
	}
	if (dscale > 0)
	{
		char *stop = p + 1 + dscale;

		*p++ = '.';
		for (int n = weight + 1; n < 0 && p < stop; n++)
			p = pgos_put4(p, 0);
		while (p < stop)
			p = pgos_put4(p, pgos_numeric_digit(&digits, end));
		p = stop;
	}
	return p;
}

static pg_noinline char *
pgos_encode_any_numeric(PgosEncoder *enc, const char *data, size_t len, char *p)
{
	const char *end = data + len;
	uint16		header;
	bool		negative;
	int			weight;
	int			dscale;

	memcpy(&header, data, 2);
	if ((header & PGOS_NUMERIC_SPECIAL) == PGOS_NUMERIC_SPECIAL)
	{
		const char *word = header == PGOS_NUMERIC_PINF	 ? "Infinity"
						   : header == PGOS_NUMERIC_NINF ? "-Infinity"
														 : "NaN";

		memcpy(p, word, strlen(word));
		return p + strlen(word);
	}
	if ((header & PGOS_NUMERIC_SPECIAL) == PGOS_NUMERIC_SHORT)
	{
		negative = (header & PGOS_SHORT_NEGATIVE) != 0;
		weight = PGOS_SHORT_WEIGHT(header);
		dscale = PGOS_SHORT_DSCALE(header);
		data += 2;
	}
	else
	{
		int16 long_weight;

		memcpy(&long_weight, data + 2, 2);
		negative = (header & PGOS_NUMERIC_NEGATIVE) != 0;
		weight = long_weight;
		dscale = header & PGOS_NUMERIC_DSCALE;
		data += 4;
	}
	p = pgos_encode_room(enc, p, (Max(weight, 0) + 1) * 4 + dscale + PGOS_ENCODE_SLACK);
	*p = '-';
	return pgos_put_numeric(p + negative, data, end, weight, dscale);
}

char *
pgos_encode_numeric(PgosEncoder *enc, PgosEncodeColumn *col, const char *data, size_t len, char *p)
{
	uint16 header;
	int	   weight;
	int	   dscale;

	memcpy(&header, data, 2);
	weight = PGOS_SHORT_WEIGHT(header);
	dscale = PGOS_SHORT_DSCALE(header);
	/* in the room that is there */
	if (unlikely((header & PGOS_NUMERIC_SPECIAL) != PGOS_NUMERIC_SHORT || weight > 8 ||
				 dscale > 20))
		return pgos_encode_any_numeric(enc, data, len, p);
	*p = '-';
	return pgos_put_numeric(p + ((header & PGOS_SHORT_NEGATIVE) != 0), data + 2, data + len, weight,
							dscale);
}

/* ---------------------------------------------------------------- dates and times */

static char *
pgos_encode_date(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	DateADT date;

	memcpy(&date, value, sizeof(date));
	if (DateStyle != USE_ISO_DATES || date < PGOS_FIRST_DATE || date > PGOS_LAST_DATE)
		return pgos_encode_by_function(enc, col, value, len, p);
	return pgos_put_date(p, (uint32) (date + PGOS_EPOCH_DAY));
}

static char *
pgos_encode_time(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	TimeADT time;

	memcpy(&time, value, sizeof(time));
	if (time < 0 || time > USECS_PER_DAY)
		return pgos_encode_by_function(enc, col, value, len, p);
	return pgos_put_time(p, time);
}

/* A timestamp in the years 1 to 9999, given as microseconds since 1 March of the year 0. */
static inline char *
pgos_put_timestamp(char *p, int64 timestamp)
{
	int64 day = timestamp / USECS_PER_DAY;

	p = pgos_put_date(p, (uint32) day);
	*p++ = ' ';
	return pgos_put_time(p, timestamp - day * USECS_PER_DAY);
}

static char *
pgos_encode_timestamp(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len,
					  char *p)
{
	Timestamp timestamp;

	memcpy(&timestamp, value, sizeof(timestamp));
	if (DateStyle != USE_ISO_DATES || timestamp < PGOS_FIRST_DATE * USECS_PER_DAY ||
		timestamp >= (PGOS_LAST_DATE + 1) * USECS_PER_DAY)
		return pgos_encode_by_function(enc, col, value, len, p);
	return pgos_put_timestamp(p, timestamp + PGOS_EPOCH_DAY * USECS_PER_DAY);
}

/* Seconds since 1970, rounded down, of microseconds since 2000. */
static pg_time_t
pgos_zone_seconds(int64 timestamp)
{
	int64 seconds = timestamp / USECS_PER_SEC;

	if (timestamp - seconds * USECS_PER_SEC < 0)
		seconds--;
	return seconds + (pg_time_t) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY;
}

/*
 * Whether the zone's offset at the beginning of the bucket, which is given, holds for all of it.
 * pg_next_dst_boundary() has its own opinion about times before the first transition, and knows of no further
 * one when asked for the second of the last one in its table: then a second later is right.
 */
static bool
pgos_zone_is_steady(int32 bucket, long offset)
{
	int64		  first = (int64) bucket << PGOS_ZONE_SHIFT;
	pg_time_t	  time = pgos_zone_seconds(first);
	pg_time_t	  last = pgos_zone_seconds(first + ((INT64CONST(1) << PGOS_ZONE_SHIFT) - 1));
	pg_time_t	  boundary;
	long		  before;
	long		  after;
	int			  before_isdst;
	int			  after_isdst;
	int			  found;
	struct pg_tm *tm;

	found = pg_next_dst_boundary(&time, &before, &before_isdst, &boundary, &after, &after_isdst,
								 session_timezone);
	if (found == 0)
	{
		time++;
		found = pg_next_dst_boundary(&time, &before, &before_isdst, &boundary, &after, &after_isdst,
									 session_timezone);
	}
	if (found < 0 || before != offset || (found > 0 && boundary <= last))
		return false;
	tm = pg_localtime(&last, session_timezone);
	return tm != NULL && tm->tm_gmtoff == offset;
}

/* The offset in seconds east of UTC at a time in the session's zone. */
static bool
pgos_zone_offset(PgosEncoder *enc, TimestampTz timestamp, int32 *offset)
{
	int32		  bucket = (int32) (timestamp >> PGOS_ZONE_SHIFT);
	PgosZoneSlot *slot = &enc->zone_slots[(uint32) bucket % PGOS_ZONE_SLOTS];
	pg_time_t	  time;
	struct pg_tm *tm;
	long		  first;

	if (likely(slot->bucket == bucket && enc->zone == session_timezone))
	{
		*offset = slot->offset;
		return true;
	}
	if (enc->zone != session_timezone)
	{
		for (int i = 0; i < PGOS_ZONE_SLOTS; i++)
			enc->zone_slots[i].bucket = PG_INT32_MIN;
		enc->zone = session_timezone;
	}
	time = pgos_zone_seconds((int64) bucket << PGOS_ZONE_SHIFT);
	tm = pg_localtime(&time, session_timezone);
	if (tm == NULL)
		return false;
	first = tm->tm_gmtoff;
	if (pgos_zone_is_steady(bucket, first))
	{
		slot->bucket = bucket;
		slot->offset = (int32) first;
		*offset = slot->offset;
		return true;
	}
	time = pgos_zone_seconds(timestamp);
	tm = pg_localtime(&time, session_timezone);
	if (tm == NULL)
		return false;
	*offset = (int32) tm->tm_gmtoff;
	return true;
}

static char *
pgos_encode_timestamptz(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len,
						char *p)
{
	TimestampTz timestamp;
	int32		offset;
	int64		local;
	uint32		seconds;

	memcpy(&timestamp, value, sizeof(timestamp));
	/* wherever the zone is, its offset is less than two days */
	if (DateStyle != USE_ISO_DATES || timestamp < (PGOS_FIRST_DATE + 2) * USECS_PER_DAY ||
		timestamp >= (PGOS_LAST_DATE - 1) * USECS_PER_DAY ||
		!pgos_zone_offset(enc, timestamp, &offset))
		return pgos_encode_by_function(enc, col, value, len, p);
	local = timestamp + offset * USECS_PER_SEC + PGOS_EPOCH_DAY * USECS_PER_DAY;
	p = pgos_put_timestamp(p, local);

	*p++ = offset < 0 ? '-' : '+';
	seconds = (uint32) abs(offset);
	p = pgos_put2(p, seconds / SECS_PER_HOUR % 100);
	if (seconds % SECS_PER_HOUR != 0)
	{
		*p++ = ':';
		p = pgos_put2(p, seconds / SECS_PER_MINUTE % MINS_PER_HOUR);
		if (seconds % SECS_PER_MINUTE != 0)
		{
			*p++ = ':';
			p = pgos_put2(p, seconds % SECS_PER_MINUTE);
		}
	}
	return p;
}

/* ---------------------------------------------------------------- choice */

/* Direct encoders by output function.  plain: what they write is never to be escaped or quoted. */
static const struct
{
	Oid			 out;
	int16		 attlen;
	bool		 plain;
	PgosStored	 stored;
	PgosEncodeFn encode;
} pgos_encode_types[] = {
	{F_BOOLOUT, 1, true, PGOS_STORED_FIXED, pgos_encode_bool},
	{F_INT2OUT, 2, true, PGOS_STORED_FIXED, pgos_encode_int2},
	{F_INT4OUT, 4, true, PGOS_STORED_INT4, pgos_encode_int4},
	{F_INT8OUT, 8, true, PGOS_STORED_INT8, pgos_encode_int8},
	{F_OIDOUT, 4, true, PGOS_STORED_FIXED, pgos_encode_oid},
	{F_FLOAT4OUT, 4, true, PGOS_STORED_FIXED, pgos_encode_float4},
	{F_FLOAT8OUT, 8, true, PGOS_STORED_FIXED, pgos_encode_float8},
	{F_NUMERIC_OUT, -1, true, PGOS_STORED_PACKED, pgos_encode_numeric},
	{F_DATE_OUT, 4, true, PGOS_STORED_FIXED, pgos_encode_date},
	{F_TIME_OUT, 8, true, PGOS_STORED_FIXED, pgos_encode_time},
	{F_TIMESTAMP_OUT, 8, true, PGOS_STORED_FIXED, pgos_encode_timestamp},
	{F_TIMESTAMPTZ_OUT, 8, true, PGOS_STORED_FIXED, pgos_encode_timestamptz},
	{F_UUID_OUT, UUID_LEN, true, PGOS_STORED_FIXED, pgos_encode_uuid},
	{F_BYTEAOUT, -1, true, PGOS_STORED_VARLENA, pgos_encode_bytea},
	{F_TEXTOUT, -1, false, PGOS_STORED_PACKED, pgos_encode_text},
	{F_VARCHAROUT, -1, false, PGOS_STORED_PACKED, pgos_encode_text},
	{F_BPCHAROUT, -1, false, PGOS_STORED_PACKED, pgos_encode_text},
	{F_JSON_OUT, -1, false, PGOS_STORED_PACKED, pgos_encode_text},
	{F_NAMEOUT, NAMEDATALEN, false, PGOS_STORED_FIXED, pgos_encode_name},
	{F_CHAROUT, 1, false, PGOS_STORED_FIXED, pgos_encode_char},
	{F_ENUM_OUT, 4, false, PGOS_STORED_FIXED, pgos_encode_enum},
	{F_ARRAY_OUT, -1, false, PGOS_STORED_VARLENA, pgos_encode_array},
	{F_JSONB_OUT, -1, false, PGOS_STORED_VARLENA, pgos_encode_jsonb},
};

void
pgos_encode_choose(PgosEncoder *enc, PgosEncodeColumn *col, Oid type)
{
	Oid	 out;
	bool is_varlena;

	getTypeOutputInfo(type, &out, &is_varlena);
	col->out = palloc(sizeof(FmgrInfo));
	fmgr_info(out, col->out);
	col->encode = pgos_encode_by_function;
	col->stored = col->attlen > 0	  ? PGOS_STORED_FIXED
				  : col->attlen == -1 ? PGOS_STORED_VARLENA
									  : PGOS_STORED_CSTRING;
	for (int i = 0; i < (int) lengthof(pgos_encode_types); i++)
	{
		if (pgos_encode_types[i].out != out || pgos_encode_types[i].attlen != col->attlen)
			continue;
		if (pgos_encode_types[i].plain && (!enc->plain || col->force_quote))
			continue;
		if (out == F_JSONB_OUT && (!pgos_encode_marks_fit(enc) || col->force_quote))
			continue;
		if (out == F_ARRAY_OUT && (col->force_quote || !pgos_encode_array_prepare(enc, col, type)))
			continue;
		col->stored = pgos_encode_types[i].stored;
		col->encode = pgos_encode_types[i].encode;
	}
	if (col->encode == pgos_encode_text && enc->csv)
		col->encode = col->force_quote ? pgos_encode_csv : pgos_encode_csv_text;
	if (col->encode == pgos_encode_enum)
		col->state = palloc0(PGOS_ENUM_SLOTS * sizeof(PgosEnumLabel));
	if (col->encode == pgos_encode_timestamptz && enc->zone_slots == NULL)
		enc->zone_slots = palloc(PGOS_ZONE_SLOTS * sizeof(PgosZoneSlot));
}

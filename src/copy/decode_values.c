/*
 * decode_values.c
 *		The direct decoder: texts of each type, as their input functions would read them.
 *
 * A function is chosen by the type's input function.  Each knows the plain form only, which is what the output
 * functions write; it answers false for anything else, also for what is no value at all, and then the input
 * function says what that is.  None depends
 * on a setting: years with four digits are read the same whatever
 * DateStyle says, and times without a zone of their own are left to the input function where one matters.
 *
 * Runs in a worker; the functions never raise.
 */
#include "postgres.h"

#include <float.h>

#include "common/hashfn.h"
#include "copy/decode_internal.h"
#include "datatype/timestamp.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

/* Digits that fit into four of a numeric's own. */
#define PGOS_NUMERIC_SIDE 16
/* The largest scale that a short header holds. */
#define PGOS_NUMERIC_SCALE 63

#define PGOS_ENUM_SLOTS 64
#define PGOS_ENUM_TEXT 28

/* A label that the input function has read. */
typedef struct PgosDecodeLabel
{
	Oid	  value;
	uint8 len; /* 0: the slot is free */
	char  text[PGOS_ENUM_TEXT];
} PgosDecodeLabel;

static const uint64 pgos_powers_of_ten[] = {1,
											10,
											100,
											1000,
											10000,
											100000,
											1000000,
											10000000,
											100000000,
											1000000000,
											UINT64CONST(10000000000),
											UINT64CONST(100000000000),
											UINT64CONST(1000000000000),
											UINT64CONST(10000000000000),
											UINT64CONST(100000000000000),
											UINT64CONST(1000000000000000),
											UINT64CONST(10000000000000000)};

/* ---------------------------------------------------------------- numbers */

static inline bool
pgos_decode_int(const char *src, size_t len, int64 *value)
{
	bool   negative = len > 0 && *src == '-';
	uint64 v;

	src += negative;
	len -= negative;
	if (len == 0 || len > 18 || !pgos_get_digits(src, len, &v))
		return false;
	*value = negative ? -(int64) v : (int64) v;
	return true;
}

static bool
pgos_decode_int2(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len, Datum *value)
{
	int64 v;

	if (!pgos_decode_int(src, len, &v) || v < PG_INT16_MIN || v > PG_INT16_MAX)
		return false;
	*value = Int16GetDatum((int16) v);
	return true;
}

static bool
pgos_decode_int4(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len, Datum *value)
{
	int64 v;

	if (!pgos_decode_int(src, len, &v) || v < PG_INT32_MIN || v > PG_INT32_MAX)
		return false;
	*value = Int32GetDatum((int32) v);
	return true;
}

static bool
pgos_decode_int8(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len, Datum *value)
{
	int64 v;

	if (!pgos_decode_int(src, len, &v))
		return false;
	*value = Int64GetDatum(v);
	return true;
}

static bool
pgos_decode_oid(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len, Datum *value)
{
	int64 v;

	if (!pgos_decode_int(src, len, &v) || *src == '-' || v > PG_UINT32_MAX)
		return false;
	*value = ObjectIdGetDatum((Oid) v);
	return true;
}

static bool
pgos_decode_bool(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len, Datum *value)
{
	if (len == 1 && (*src == 't' || *src == 'f'))
		*value = BoolGetDatum(*src == 't');
	else if (len == 4 && memcmp(src, "true", 4) == 0)
		*value = BoolGetDatum(true);
	else if (len == 5 && memcmp(src, "false", 5) == 0)
		*value = BoolGetDatum(false);
	else
		return false;
	return true;
}

/* A number in the plain form -123.456: up to 16 digits on each side of the point. */
typedef struct PgosDecimal
{
	bool   negative;
	uint64 whole;
	uint64 fraction;
	int	   digits; /* of the fraction */
} PgosDecimal;

static inline bool
pgos_decode_decimal(const char *src, size_t len, PgosDecimal *decimal)
{
	size_t point;

	decimal->negative = len > 0 && *src == '-';
	src += decimal->negative;
	len -= decimal->negative;
	point = pgos_find_byte(src, len, '.');
	decimal->fraction = 0;
	decimal->digits = 0;
	if (point == 0 || point > PGOS_NUMERIC_SIDE || !pgos_get_digits(src, point, &decimal->whole))
		return false;
	if (point == len)
		return true;
	src += point + 1;
	len -= point + 1;
	if (len == 0 || len > PGOS_NUMERIC_SIDE || !pgos_get_digits(src, len, &decimal->fraction))
		return false;
	decimal->digits = (int) len;
	return true;
}

/*
 * Numbers whose digits and whose power of ten are both exact as a floating-point number: one division rounds as
 * strtod() must (Clinger, "How to read floating point numbers accurately", 1990).
 */
static bool
pgos_decode_float8(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len,
				   Datum *value)
{
	PgosDecimal decimal;
	uint64		digits;
	double		v;

	if (FLT_EVAL_METHOD != 0 || len > 18 || !pgos_decode_decimal(src, len, &decimal))
		return false;
	digits = decimal.whole * pgos_powers_of_ten[decimal.digits] + decimal.fraction;
	if (digits > UINT64CONST(1) << DBL_MANT_DIG)
		return false;
	v = (double) digits / (double) pgos_powers_of_ten[decimal.digits];
	*value = Float8GetDatum(decimal.negative ? -v : v);
	return true;
}

static bool
pgos_decode_float4(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len,
				   Datum *value)
{
	PgosDecimal decimal;
	uint64		digits;
	float		v;

	/* 10^10 is the largest power of ten that is exact */
	if (FLT_EVAL_METHOD != 0 || len > 12 || !pgos_decode_decimal(src, len, &decimal) ||
		decimal.digits > 10)
		return false;
	digits = decimal.whole * pgos_powers_of_ten[decimal.digits] + decimal.fraction;
	if (digits > UINT64CONST(1) << FLT_MANT_DIG)
		return false;
	v = (float) digits / (float) pgos_powers_of_ten[decimal.digits];
	*value = Float4GetDatum(decimal.negative ? -v : v);
	return true;
}

/* A value of up to 126 bytes as it will be in the tuple: returns where they go. */
static inline char *
pgos_decode_short(PgosDecoder *dec, size_t len, Datum *value)
{
	char *p = pgos_decode_alloc(dec, len + VARHDRSZ_SHORT);

	SET_VARSIZE_SHORT(p, len + VARHDRSZ_SHORT);
	*value = PointerGetDatum(p);
	return p + VARHDRSZ_SHORT;
}

/* As numeric_in() makes it: a short header, and digits to the base of 10000 without zeros at the ends. */
static bool
pgos_decode_numeric(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len,
					Datum *value)
{
	PgosDecimal decimal;
	int16		digits[8];
	int			groups;
	int			first;
	int			last;
	int			weight;
	int			scale;
	uint16		header;
	char	   *p;

	if (!pgos_decode_decimal(src, len, &decimal))
		return false;
	scale = decimal.digits;
	if (col->scale >= 0)
	{
		/* more than that is to be rounded, or too much */
		if (scale > col->scale ||
			(col->limit < PGOS_NUMERIC_SIDE && decimal.whole >= pgos_powers_of_ten[col->limit]))
			return false;
		scale = col->scale;
	}
	first = 2;
	if (decimal.whole >= 100000000)
	{
		uint32 high = (uint32) (decimal.whole / 100000000);

		digits[0] = (int16) (high / 10000);
		digits[1] = (int16) (high % 10000);
		decimal.whole %= 100000000;
		first = 0;
	}
	digits[2] = (int16) ((uint32) decimal.whole / 10000);
	digits[3] = (int16) ((uint32) decimal.whole % 10000);
	groups = (decimal.digits + 3) / 4;
	decimal.fraction *= pgos_powers_of_ten[4 * groups - decimal.digits];
	for (int i = 3 + groups; i > 4; i--)
	{
		digits[i] = (int16) (decimal.fraction % 10000);
		decimal.fraction /= 10000;
	}
	if (groups > 0)
		digits[4] = (int16) decimal.fraction;
	last = 4 + groups;
	while (first < last && digits[first] == 0)
		first++;
	while (last > first && digits[last - 1] == 0)
		last--;
	weight = first < last ? 3 - first : 0;
	/* NUMERIC_SHORT, _SIGN_MASK, _DSCALE_SHIFT, _WEIGHT_SIGN_MASK and _WEIGHT_MASK of numeric.c */
	header = 0x8000 | (decimal.negative && first < last ? 0x2000 : 0) | scale << 7 |
			 (weight < 0 ? 0x0040 : 0) | (weight & 0x003f);
	p = pgos_decode_short(dec, sizeof(header) + (last - first) * sizeof(int16), value);
	memcpy(p, &header, sizeof(header));
	memcpy(p + sizeof(header), digits + first, (last - first) * sizeof(int16));
	return true;
}

/* ---------------------------------------------------------------- dates and times */

static bool
pgos_decode_date(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len, Datum *value)
{
	int year;
	int month;
	int day;

	if (len != 10 || !pgos_get_date(src, &year, &month, &day))
		return false;
	*value = DateADTGetDatum(date2j(year, month, day) - POSTGRES_EPOCH_JDATE);
	return true;
}

/* HH:MM:SS and up to so many digits of a fraction; *used: the bytes. */
static inline bool
pgos_decode_clock(const char *src, size_t len, int32 max_digits, int64 *microseconds, size_t *used)
{
	size_t digits = 0;
	uint32 fraction;

	if (len < 8 || !pgos_get_time(src, microseconds))
		return false;
	*used = 8;
	if (len == 8 || src[8] != '.')
		return true;
	src += 9;
	len -= 9;
	while (digits < len && src[digits] >= '0' && src[digits] <= '9')
		digits++;
	if (digits == 0 || digits > max_digits || !pgos_get_digits8(src, digits, &fraction))
		return false;
	*microseconds += (int64) (fraction * pgos_powers_of_ten[6 - digits]);
	*used += 1 + digits;
	return true;
}

static bool
pgos_decode_time(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len, Datum *value)
{
	int64  microseconds;
	size_t used;

	if (!pgos_decode_clock(src, len, col->limit, &microseconds, &used) || used != len)
		return false;
	*value = TimeADTGetDatum(microseconds);
	return true;
}

/* YYYY-MM-DD HH:MM:SS.ffffff; *used: the bytes. */
static inline bool
pgos_decode_datetime(const char *src, size_t len, int32 max_digits, int64 *microseconds,
					 size_t *used)
{
	int year;
	int month;
	int day;

	if (len < 19 || src[10] != ' ' || !pgos_get_date(src, &year, &month, &day) ||
		!pgos_decode_clock(src + 11, len - 11, max_digits, microseconds, used))
		return false;
	*microseconds += (date2j(year, month, day) - POSTGRES_EPOCH_JDATE) * USECS_PER_DAY;
	*used += 11;
	return true;
}

static bool
pgos_decode_timestamp(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len,
					  Datum *value)
{
	int64  microseconds;
	size_t used;

	if (!pgos_decode_datetime(src, len, col->limit, &microseconds, &used) || used != len)
		return false;
	*value = TimestampGetDatum(microseconds);
	return true;
}

/* With the offset of the zone: +HH or +HH:MM. */
static bool
pgos_decode_timestamptz(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len,
						Datum *value)
{
	int64		microseconds;
	size_t		used;
	const char *zone;
	uint32		hours;
	uint32		minutes = 0;
	int64		offset;

	if (!pgos_decode_datetime(src, len, col->limit, &microseconds, &used))
		return false;
	zone = src + used;
	used = len - used;
	if ((used != 3 && used != 6) || (*zone != '+' && *zone != '-') ||
		!pgos_get_digits8(zone + 1, 2, &hours) || hours > MAX_TZDISP_HOUR)
		return false;
	if (used == 6 && (zone[3] != ':' || !pgos_get_digits8(zone + 4, 2, &minutes) || minutes > 59))
		return false;
	offset = (int64) (hours * 3600 + minutes * 60) * USECS_PER_SEC;
	*value = TimestampTzGetDatum(*zone == '+' ? microseconds - offset : microseconds + offset);
	return true;
}

/* ---------------------------------------------------------------- strings */

static bool
pgos_decode_text(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len, Datum *value)
{
	if (dec->own_text)
	{
		char *p = unconstify(char *, src) - VARHDRSZ;

		SET_VARSIZE(p, len + VARHDRSZ);
		*value = PointerGetDatum(p);
	}
	else if (len + VARHDRSZ_SHORT <= VARATT_SHORT_MAX)
	{
		char *p = pgos_decode_short(dec, len, value);

		/* one store for most; there is room */
		memcpy(p, src, 16);
		if (len > 16)
			memcpy(p + 16, src + 16, len - 16);
	}
	else
	{
		char *p = pgos_decode_alloc(dec, len + VARHDRSZ);

		SET_VARSIZE(p, len + VARHDRSZ);
		memcpy(p + VARHDRSZ, src, len);
		*value = PointerGetDatum(p);
	}
	return true;
}

/* No more bytes than there may be characters, or there is no limit. */
static bool
pgos_decode_varchar(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len,
					Datum *value)
{
	return (col->limit < 0 || len <= (size_t) col->limit) &&
		   pgos_decode_text(dec, col, src, len, value);
}

static bool
pgos_decode_bpchar(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len,
				   Datum *value)
{
	char *p;

	if (col->limit < 0)
		return pgos_decode_text(dec, col, src, len, value);
	if (len > (size_t) col->limit)
		return false;
	/* filled up to the number of characters, which is that of bytes if each is one */
	for (size_t i = 0; i < len; i++)
	{
		if (IS_HIGHBIT_SET(src[i]))
			return false;
	}
	if (len == (size_t) col->limit)
		return pgos_decode_text(dec, col, src, len, value);
	p = pgos_decode_alloc(dec, col->limit + VARHDRSZ);
	SET_VARSIZE(p, col->limit + VARHDRSZ);
	memcpy(p + VARHDRSZ, src, len);
	memset(p + VARHDRSZ + len, ' ', col->limit - len);
	*value = PointerGetDatum(p);
	return true;
}

static bool
pgos_decode_name(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len, Datum *value)
{
	char *p;

	if (len >= NAMEDATALEN)
		return false;
	p = pgos_decode_alloc(dec, NAMEDATALEN);
	memset(p, 0, NAMEDATALEN);
	memcpy(p, src, len);
	*value = PointerGetDatum(p);
	return true;
}

static bool
pgos_decode_char(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len, Datum *value)
{
	if (len != 1)
		return false;
	*value = CharGetDatum(*src);
	return true;
}

static bool
pgos_decode_bytea(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len,
				  Datum *value)
{
	size_t bytes = len / 2 - 1;
	char  *p;

	if (len < 2 || len % 2 != 0 || memcmp(src, "\\x", 2) != 0)
		return false;
	p = pgos_decode_alloc(dec, bytes + VARHDRSZ);
	SET_VARSIZE(p, bytes + VARHDRSZ);
	*value = PointerGetDatum(p);
	return pgos_get_hex(src + 2, bytes, p + VARHDRSZ);
}

static bool
pgos_decode_uuid(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len, Datum *value)
{
	/* hyphens are before these bytes */
	static const uint8 pieces[] = {4, 2, 2, 2, 6};
	char			  *p;

	if (len != 36 || src[8] != '-' || src[13] != '-' || src[18] != '-' || src[23] != '-')
		return false;
	p = pgos_decode_alloc(dec, UUID_LEN);
	*value = PointerGetDatum(p);
	for (int i = 0; i < (int) lengthof(pieces); i++)
	{
		if (!pgos_get_hex(src, pieces[i], p))
			return false;
		src += 2 * pieces[i] + 1;
		p += pieces[i];
	}
	return true;
}

/* A label is looked up by the input function once; this one raises what that does. */
static bool
pgos_decode_enum(PgosDecoder *dec, PgosDecodeColumn *col, const char *src, size_t len, Datum *value)
{
	PgosDecodeLabel *label = col->state;
	char			 string[PGOS_ENUM_TEXT + 1];

	if (len == 0 || len > PGOS_ENUM_TEXT)
		return false;
	label += hash_bytes((const unsigned char *) src, (int) len) % PGOS_ENUM_SLOTS;
	if (label->len != len || memcmp(label->text, src, len) != 0)
	{
		memcpy(string, src, len);
		string[len] = '\0';
		label->value = DatumGetObjectId(pgos_decode_by_function(dec, col, string));
		memcpy(label->text, src, len);
		label->len = (uint8) len;
	}
	*value = ObjectIdGetDatum(label->value);
	return true;
}

/* ---------------------------------------------------------------- choice */

typedef struct PgosDecodeType
{
	Oid			 in; /* the input function */
	PgosDecodeFn decode;
} PgosDecodeType;

static const PgosDecodeType pgos_decode_types[] = {
	{F_BOOLIN, pgos_decode_bool},
	{F_INT2IN, pgos_decode_int2},
	{F_INT4IN, pgos_decode_int4},
	{F_INT8IN, pgos_decode_int8},
	{F_OIDIN, pgos_decode_oid},
	{F_FLOAT4IN, pgos_decode_float4},
	{F_FLOAT8IN, pgos_decode_float8},
	{F_NUMERIC_IN, pgos_decode_numeric},
	{F_DATE_IN, pgos_decode_date},
	{F_TIME_IN, pgos_decode_time},
	{F_TIMESTAMP_IN, pgos_decode_timestamp},
	{F_TIMESTAMPTZ_IN, pgos_decode_timestamptz},
	{F_TEXTIN, pgos_decode_text},
	{F_VARCHARIN, pgos_decode_varchar},
	{F_BPCHARIN, pgos_decode_bpchar},
	{F_NAMEIN, pgos_decode_name},
	{F_CHARIN, pgos_decode_char},
	{F_BYTEAIN, pgos_decode_bytea},
	{F_UUID_IN, pgos_decode_uuid},
	{F_ENUM_IN, pgos_decode_enum},
};

/* What the type modifier says; false: only the input function understands it. */
static bool
pgos_decode_limits(PgosDecodeColumn *col, Oid in)
{
	int32 typmod = col->typmod;

	col->limit = -1;
	col->scale = -1;
	switch (in)
	{
		case F_VARCHARIN:
		case F_BPCHARIN:
			if (typmod >= (int32) VARHDRSZ)
				col->limit = typmod - VARHDRSZ;
			return true;
		case F_TIME_IN:
		case F_TIMESTAMP_IN:
		case F_TIMESTAMPTZ_IN:
			col->limit = typmod < 0 ? MAX_TIMESTAMP_PRECISION : typmod;
			return true;
		case F_NUMERIC_IN:
			if (typmod >= (int32) VARHDRSZ)
			{
				/* as numeric.c packs them: 16 bits of precision, 11 with a sign of scale */
				col->scale = (((typmod - VARHDRSZ) & 0x7ff) ^ 1024) - 1024;
				col->limit = (((typmod - VARHDRSZ) >> 16) & 0xffff) - col->scale;
				return col->scale >= 0 && col->scale <= PGOS_NUMERIC_SCALE && col->limit >= 0;
			}
			return true;
		default:
			return true;
	}
}

void
pgos_decode_choose(PgosDecodeColumn *col, Form_pg_attribute att)
{
	Oid in = col->in->fn_oid;

	/* values with short headers are made for columns that would have them in the tuple */
	if (att->attlen == -1 && att->attstorage == TYPSTORAGE_PLAIN)
		return;
	for (int i = 0; i < (int) lengthof(pgos_decode_types); i++)
	{
		if (pgos_decode_types[i].in == in && pgos_decode_limits(col, in))
			col->decode = pgos_decode_types[i].decode;
	}
	if (in == F_ENUM_IN)
		col->state = palloc0(PGOS_ENUM_SLOTS * sizeof(PgosDecodeLabel));
}

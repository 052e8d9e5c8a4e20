/*
 * guess.c
 *		What an object is: by its name, and by its first bytes.
 *
 * Magic numbers are those of the formats' specifications.  Where a magic number is also plausible text
 * ("PAR1", "BZh9"), a byte more is looked at.
 */
#include "core/guess.h"

typedef struct Extension
{
	const char *text;
	PgosFormat	format;
} Extension;

static const Extension formats[] = {
	{".csv", PGOS_FORMAT_CSV},
	{".tsv", PGOS_FORMAT_TEXT},
	{".txt", PGOS_FORMAT_TEXT},
	{".bin", PGOS_FORMAT_BINARY},
};

typedef struct ForeignExtension
{
	const char *text;
	const char *what;
} ForeignExtension;

static const ForeignExtension foreigners[] = {
	{".parquet", "Parquet"},
	{".orc", "ORC"},
	{".avro", "Avro"},
	{".json", "JSON"},
	{".jsonl", "JSON"},
	{".ndjson", "JSON"},
	{".xml", "XML"},
	{".zip", "a zip archive"},
	{".xlsx", "Excel"},
	{".bz2", "bzip2"},
	{".xz", "xz"},
	{".snappy", "snappy"},
	{".br", "brotli"},
	{".tar", "a tar archive"},
	{".tgz", "a tar archive"},
	{".7z", "a 7z archive"},
};

/* Whether name ends in the extension and has something before it. */
static bool
has_extension(const char *name, size_t len, const char *extension)
{
	size_t extension_len = strlen(extension);

	return len > extension_len &&
		   pg_strncasecmp(name + len - extension_len, extension, extension_len) == 0;
}

PgosNameGuess
pgos_guess_name(const char *key)
{
	PgosNameGuess guess = {0};
	const char	 *slash = strrchr(key, '/');
	const char	 *name = slash != NULL ? slash + 1 : key;
	size_t		  len = strlen(name);

	for (int i = PGOS_COMPRESSION_ZSTD; i <= PGOS_COMPRESSION_LZ4; i++)
	{
		const char *extension = pgos_compression_extension((PgosCompression) i);

		if (!guess.has_compression && has_extension(name, len, extension))
		{
			guess.has_compression = true;
			guess.compression = (PgosCompression) i;
			len -= strlen(extension);
		}
	}
	for (int i = 0; i < lengthof(formats) && !guess.has_format; i++)
	{
		if (has_extension(name, len, formats[i].text))
		{
			guess.has_format = true;
			guess.format = formats[i].format;
		}
	}
	for (int i = 0; i < lengthof(foreigners) && guess.foreign == NULL; i++)
	{
		if (has_extension(name, len, foreigners[i].text))
			guess.foreign = foreigners[i].what;
	}
	return guess;
}

static bool
begins(const char *data, size_t len, const char *magic, size_t magic_len)
{
	return len >= magic_len && memcmp(data, magic, magic_len) == 0;
}

#define BEGINS(magic) begins(data, len, magic, sizeof(magic) - 1)

/* Frames that zstd and lz4 both skip: 0x184D2A50 to 0x184D2A5F, then the length, both little-endian. */
static bool
is_skippable(const char *data, size_t len)
{
	return len >= 4 && ((unsigned char) data[0] & 0xF0) == 0x50 &&
		   begins(data + 1, len - 1, "\x2A\x4D\x18", 3);
}

PgosMagic
pgos_guess_magic(const char *data, size_t len, const char **foreign)
{
	const char *what = NULL;

	if (foreign != NULL)
		*foreign = NULL;
	if (is_skippable(data, len))
	{
		uint32	  size;
		PgosMagic next;

		if (len < 8)
			return PGOS_MAGIC_SKIPPABLE;
		size = (uint32) (unsigned char) data[4] | (uint32) (unsigned char) data[5] << 8 |
			   (uint32) (unsigned char) data[6] << 16 | (uint32) (unsigned char) data[7] << 24;
		if (size > len - 8)
			return PGOS_MAGIC_SKIPPABLE;
		next = pgos_guess_magic(data + 8 + size, len - 8 - size, NULL);
		return next == PGOS_MAGIC_ZSTD || next == PGOS_MAGIC_LZ4 ? next : PGOS_MAGIC_SKIPPABLE;
	}
	if (BEGINS("\x1F\x8B\x08"))
		return PGOS_MAGIC_GZIP;
	if (BEGINS("\x28\xB5\x2F\xFD"))
		return PGOS_MAGIC_ZSTD;
	if (BEGINS("\x04\x22\x4D\x18"))
		return PGOS_MAGIC_LZ4;
	if (BEGINS("PGCOPY\n\377\r\n\0"))
		return PGOS_MAGIC_BINARY;
	if (BEGINS("\xEF\xBB\xBF"))
		return PGOS_MAGIC_UTF8_BOM;
	if (BEGINS("\xFF\xFE") || BEGINS("\xFE\xFF") || BEGINS("\0\0\xFE\xFF"))
		return PGOS_MAGIC_UTF16;

	if (BEGINS("PAR1\x15"))
		what = "Parquet";
	else if (BEGINS("Obj\x01"))
		what = "Avro";
	else if (BEGINS("PK\x03\x04"))
		what = "a zip archive";
	else if (BEGINS("\xFD"
					"7zXZ\0"))
		what = "xz";
	else if (BEGINS("7z\xBC\xAF\x27\x1C"))
		what = "a 7z archive";
	else if (BEGINS("BZh") && len >= 10 && memcmp(data + 4, "1AY&SY", 6) == 0)
		what = "bzip2";
	else if (BEGINS("\x02\x21\x4C\x18"))
		what = "the legacy format of lz4";
	else if (BEGINS("\xFF\x06\0\0sNaPpY"))
		what = "snappy";
	if (what == NULL)
		return PGOS_MAGIC_NONE;
	if (foreign != NULL)
		*foreign = what;
	return PGOS_MAGIC_FOREIGN;
}

/*
 * test_guess.c
 *		Names and first bytes of objects, and folders named key=value.
 */
#include "tap.h"

#include "core/guess.h"
#include "core/hive.h"

/* format and compression as letters: csv, text or binary; none, zstd, gzip or lz4; '-' where the name says nothing */
static void
name(const char *key, const char *want)
{
	PgosNameGuess guess = pgos_guess_name(key);
	char		  got[3] = "--";

	if (guess.has_format)
		got[0] = "ctb"[guess.format];
	if (guess.has_compression)
		got[1] = "nzgl"[guess.compression];
	is_str(got, want, key);
}

static void
foreign_name(const char *key, const char *want)
{
	is_str(pgos_guess_name(key).foreign, want, key);
}

#define magic(bytes, want) is_int(pgos_guess_magic(bytes, sizeof(bytes) - 1, NULL), want, #want)

static void
foreign(const char *bytes, size_t len, const char *want)
{
	const char *what = NULL;

	is_int(pgos_guess_magic(bytes, len, &what), PGOS_MAGIC_FOREIGN, want);
	is_str(what, want, want);
}

static void
hive(const char *key, const char *want)
{
	StringInfoData out;
	size_t		   position = 0;
	char		  *column;
	char		  *value;

	initStringInfo(&out);
	while (pgos_hive_next(key, &position, &column, &value))
	{
		appendStringInfo(&out, "%s:%s;", column, value ? value : "(null)");
		keep(column);
		keep(value);
	}
	is_str(out.data, want, key);
	pfree(out.data);
}

int
main(void)
{
	name("a.csv", "c-");
	name("a.CSV.GZ", "cg");
	name("d.txt/a.csv.zst", "cz");
	name("a.tsv", "t-");
	name("a.txt.lz4", "tl");
	name("a.bin", "b-");
	name("a.gz", "-g");
	name("a", "--");
	name(".csv", "--");
	name("d/.gz", "--");
	name("a.csv.part", "--");
	name("a.gz.csv", "c-");
	name("part-00000-1234.c000.csv.gz", "cg");
	foreign_name("a.parquet", "Parquet");
	foreign_name("a.json.gz", "JSON");
	foreign_name("a.tar.gz", "a tar archive");
	foreign_name("a.csv", NULL);
	foreign_name("json", NULL);

	magic("", PGOS_MAGIC_NONE);
	magic("a,b\n", PGOS_MAGIC_NONE);
	magic("\x1F\x8B\x08\0", PGOS_MAGIC_GZIP);
	magic("\x1F\x8B", PGOS_MAGIC_NONE);
	magic("\x28\xB5\x2F\xFD\x04", PGOS_MAGIC_ZSTD);
	magic("\x04\x22\x4D\x18\x64", PGOS_MAGIC_LZ4);
	magic("\x50\x2A\x4D\x18\x04\0\0\0abcd\x28\xB5\x2F\xFD", PGOS_MAGIC_ZSTD);
	magic("\x5F\x2A\x4D\x18\0\0\0\0\x04\x22\x4D\x18", PGOS_MAGIC_LZ4);
	magic("\x51\x2A\x4D\x18\x04\0\0\0abcd", PGOS_MAGIC_SKIPPABLE);
	magic("\x51\x2A\x4D\x18\xFF\xFF\xFF\xFF"
		  "abcd",
		  PGOS_MAGIC_SKIPPABLE);
	magic("\x51\x2A\x4D\x18", PGOS_MAGIC_SKIPPABLE);
	magic("PGCOPY\n\377\r\n\0\0\0\0\0", PGOS_MAGIC_BINARY);
	magic("PGCOPY\n", PGOS_MAGIC_NONE);
	magic("\xEF\xBB\xBFid", PGOS_MAGIC_UTF8_BOM);
	magic("\xFF\xFEi\0", PGOS_MAGIC_UTF16);
	magic("\xFE\xFF\0i", PGOS_MAGIC_UTF16);
	magic("PAR1,x", PGOS_MAGIC_NONE);
	magic("BZh9,x", PGOS_MAGIC_NONE);
	foreign("PAR1\x15\x04", 6, "Parquet");
	foreign("PK\x03\x04xx", 6, "a zip archive");
	foreign("BZh91AY&SYxx", 12, "bzip2");
	foreign("\xFD"
			"7zXZ\0\0",
			7, "xz");

	hive("t/dt=2024-01-02/h=03/a=b.csv", "dt:2024-01-02;h:03;");
	hive("a.csv", "");
	hive("=x/y=/z", "y:;");
	hive("p=__HIVE_DEFAULT_PARTITION__/x", "p:(null);");
	hive("p=a%2Fb%20c%/x", "p:a/b c%;");
	hive("p=a%zz%4/x", "p:a%zz%4;");
	hive("p=%41/x", "p:A;");
	hive("p=%00/x", "p:%00;");
	hive("p=a=b/x", "p:a=b;");
	return tap_end();
}

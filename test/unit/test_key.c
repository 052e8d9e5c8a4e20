/*
 * test_key.c
 *		Keys of datasets, and which paths of users' are refused.
 */
#include "tap.h"

#include "core/key.h"

static void
component(const char *name, const char *want)
{
	StringInfoData out;

	initStringInfo(&out);
	pgos_key_component(&out, name);
	is_str(out.data, want, want[0] ? want : "(empty)");
	pfree(out.data);
}

static void
is_freed_str(char *got, const char *want)
{
	is_str(got, want, want);
	pfree(got);
}

static void
good(const char *key)
{
	const char *error = pgos_key_check(key);

	ok(error == NULL, "accepts \"%.60s\"", key);
	if (error != NULL)
		printf("#   got: %s\n", error);
}

static void
bad(const char *key, const char *part)
{
	char name[100];

	snprintf(name, sizeof(name), "refuses it: %s", part);
	has_str(pgos_key_check(key), part, name);
}

/* count copies of text in a static buffer, then tail. */
static const char *
repeat(const char *text, int count, const char *tail)
{
	static char buffer[4096];
	size_t		len = strlen(text);
	int			i;

	for (i = 0; i < count; i++)
		memcpy(buffer + i * len, text, len);
	memcpy(buffer + count * len, tail, strlen(tail) + 1);
	return buffer;
}

int
main(void)
{
	component("orders", "orders");
	component("Two Words", "Two Words");
	component("a.b", "a%2Eb");
	component("a/b", "a%2Fb");
	component("100%", "100%25");
	component("%2E", "%252E");
	component(".", "%2E");
	component("..", "%2E%2E");
	component("a\nb\tc\177", "a%0Ab%09c%7F");
	component("stra\303\237e_\360\237\220\230", "stra\303\237e_\360\237\220\230");
	/* not UTF-8: Latin-1, cut short, overlong '/', surrogate, beyond U+10FFFF */
	component("stra\337e", "stra%DFe");
	component("a\342\202", "a%E2%82");
	component("a\342\202/b", "a%E2%82%2Fb");
	component("\300\257", "%C0%AF");
	component("\355\240\200", "%ED%A0%80");
	component("\364\220\200\200", "%F4%90%80%80");
	component("\303\244\377\303\244", "\303\244%FF\303\244");
	component("", "");

	is_freed_str(pgos_key_dataset("db", "public", "orders", 1704067199, 42),
				 "db/public.orders/20231231T235959Z-42/");
	is_freed_str(pgos_key_dataset("d.b", "a.b", "c/d", 0, PG_INT64_MAX),
				 "d%2Eb/a%2Eb.c%2Fd/19700101T000000Z-9223372036854775807/");
	/* "a.b"."c" and "a"."b.c" are two tables */
	is_freed_str(pgos_key_dataset("d", "a.b", "c", 0, 1), "d/a%2Eb.c/19700101T000000Z-1/");
	is_freed_str(pgos_key_dataset("d", "a", "b.c", 0, 1), "d/a.b%2Ec/19700101T000000Z-1/");

	is_freed_str(pgos_key_object("f/", 0, PGOS_FORMAT_CSV, PGOS_COMPRESSION_ZSTD, NULL),
				 "f/part-00000.csv.zst");
	is_freed_str(pgos_key_object("f/", 7, PGOS_FORMAT_CSV, PGOS_COMPRESSION_ZSTD, "x1"),
				 "f/part-00007-x1.csv.zst");
	is_freed_str(pgos_key_object("", 99999, PGOS_FORMAT_TEXT, PGOS_COMPRESSION_NONE, NULL),
				 "part-99999.txt");
	is_freed_str(pgos_key_object("", 100000, PGOS_FORMAT_BINARY, PGOS_COMPRESSION_GZIP, NULL),
				 "part-100000.bin.gz");
	is_freed_str(pgos_key_object("a/b/", 12, PGOS_FORMAT_CSV, PGOS_COMPRESSION_LZ4, NULL),
				 "a/b/part-00012.csv.lz4");

	good("a");
	good("a/");
	good("exports/orders/");
	good("exports/orders.csv.zst");
	good("a b+c=d:e@f~g%h*i'j\"k");
	good("\303\244/\346\227\245\346\234\254");
	good(".hidden/..a/b..");
	good("...");
	good("manifest.json/x");
	good("my-manifest.json");
	good("manifest.json.csv");
	good(repeat("x", 1024, ""));
	good(repeat("\303\244", 512, ""));

	bad("", "empty");
	bad("/", "begins with");
	bad("/a", "begins with");
	bad("//", "begins with");
	bad("a//b", "//");
	bad("a//", "//");
	bad(".", "component");
	bad("..", "component");
	bad("./a", "component");
	bad("a/../b", "component");
	bad("a/./b", "component");
	bad("a/..", "component");
	bad("a/.", "component");
	bad("a/../", "component");
	bad("manifest.json", "reserved");
	bad("a/manifest.json", "reserved");
	bad("a/manifest.json/", "reserved");
	bad("a\nb", "control");
	bad("a\177b", "control");
	bad("a\001", "control");
	bad("stra\337e", "UTF-8");
	bad("a\300\257b", "UTF-8");
	bad("a\342\202", "UTF-8");
	bad(repeat("x", 1025, ""), "1024");
	bad(repeat("\303\244", 512, "x"), "1024");
	return tap_end();
}

/*
 * test_glob.c
 *		Patterns over keys: what matches, what does not, what is refused.
 */
#include "tap.h"

#include "core/glob.h"

static void
check(const char *pattern, const char *key, bool want)
{
	const char *problem;
	PgosGlob   *glob = pgos_glob_compile(pattern, &problem);

	ok(glob != NULL && pgos_glob_match(glob, key) == want, "\"%s\" %s \"%s\"", pattern,
	   want ? "matches" : "does not match", key);
	if (glob != NULL)
		pgos_glob_free(glob);
}

#define yes(pattern, key) check(pattern, key, true)
#define no(pattern, key) check(pattern, key, false)

static void
bad(const char *pattern, const char *part)
{
	const char *problem = NULL;

	has_str(pgos_glob_compile(pattern, &problem) == NULL ? problem : "(accepted)", part, pattern);
}

static void
prefix(const char *pattern, const char *want)
{
	const char *problem;
	PgosGlob   *glob = pgos_glob_compile(pattern, &problem);

	is_str(glob != NULL ? pgos_glob_prefix(glob) : problem, want, pattern);
	if (glob != NULL)
		pgos_glob_free(glob);
}

static void
hidden(const char *key, size_t prefix_len, bool want)
{
	ok(pgos_glob_is_hidden(key, prefix_len) == want, "\"%s\" behind %d bytes is %shidden", key,
	   (int) prefix_len, want ? "" : "not ");
}

int
main(void)
{
	char long_key[1025];
	char stars[1025];

	ok(!pgos_glob_is_pattern("a/b c.csv"), "no pattern");
	ok(pgos_glob_is_pattern("a\\*b"), "an escaped star makes a pattern");
	ok(!pgos_glob_is_pattern("a\\b"), "a backslash alone does not");
	ok(!pgos_glob_is_pattern("a]b}c"), "closing brackets alone are no pattern");
	ok(pgos_glob_is_pattern("a*"), "*");
	ok(pgos_glob_is_pattern("a\\\\?"), "? behind an escaped backslash");
	ok(pgos_glob_is_pattern("[a]"), "[");
	ok(pgos_glob_is_pattern("x{a,b}"), "{");

	yes("a.csv", "a.csv");
	no("a.csv", "a.csvx");
	no("a.csv", "a.cs");
	yes("*.csv", "a.csv");
	yes("*.csv", ".csv");
	no("*.csv", "d/a.csv");
	no("*.csv", "a.csv.gz");
	yes("*", "a");
	yes("*", "");
	no("*", "a/");
	yes("d/*/x", "d/e/x");
	no("d/*/x", "d/e/f/x");
	yes("?.csv", "a.csv");
	no("?.csv", ".csv");
	no("?", "/");
	yes("a*b*c", "aXbYbZc");
	no("a*b*c", "aXbYbZ");

	yes("**", "a/b/c");
	yes("**", "");
	yes("d/**", "d/a/b");
	yes("d/**", "d/");
	no("d/**", "d");
	yes("**/x", "x");
	yes("**/x", "a/b/x");
	no("**/x", "ax");
	no("**/x", "a/bx");
	yes("d/**/x", "d/x");
	yes("d/**/x", "d/a/b/x");
	no("d/**/x", "dx");
	yes("d/**.csv", "d/a/b.csv");
	yes("d/a**/x", "d/ab/c/x");
	yes("***", "a/b");
	yes("d/", "d/a/b");
	yes("d*/", "d1/a/b");
	no("d*/", "d1");

	yes("[abc]", "b");
	no("[abc]", "d");
	yes("[a-c]x", "bx");
	no("[a-c]", "B");
	yes("[!a-c]", "d");
	yes("[^a-c]", "d");
	no("[!a-c]", "b");
	no("[!a]", "/");
	no("[.-0]", "/");
	yes("[]a]", "]");
	yes("[!]a]", "b");
	yes("[a-]", "-");
	yes("[\\]]", "]");
	yes("[a\\-z]", "-");
	no("[a\\-z]", "b");
	yes("[0-9][0-9].csv", "07.csv");

	yes("{a,b}.csv", "a.csv");
	yes("{a,b}.csv", "b.csv");
	no("{a,b}.csv", "c.csv");
	no("{a,b}.csv", "ab.csv");
	yes("x{,.gz}", "x");
	yes("x{,.gz}", "x.gz");
	yes("{a,b{c,d}}", "bd");
	no("{a,b{c,d}}", "b");
	yes("{a/b,c}/*", "a/b/x");
	yes("{*.csv,*.txt}{,.gz}", "f.txt.gz");
	yes("{a}", "a");
	yes("{a\\,b,c}", "a,b");
	yes("a,b}", "a,b}");

	yes("\\*", "*");
	no("\\*", "a");
	yes("\\{a\\}", "{a}");
	yes("a\\b", "ab");

	yes("stra\303\237e?", "stra\303\237e\303\244");
	yes("?", "\360\237\220\230");
	no("?", "\303\244\303\244");
	yes("[\303\244-\303\266]", "\303\245");
	no("[\303\244-\303\266]", "\303\274");
	yes("a?", "a\377");
	yes("*\377", "x\377");
	yes("[!a]b", "\303b");

	bad("[abc", "\"]\"");
	bad("[", "\"]\"");
	bad("[]", "\"]\"");
	bad("{a,b", "\"}\"");
	bad("{", "\"}\"");
	bad("[z-a]", "range");
	bad("a\\", "backslash");
	bad("{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{", "nested");

	prefix("a/b/*.csv", "a/b/");
	prefix("a/b", "a/b");
	prefix("*", "");
	prefix("a\\*b*", "a*b");
	prefix("da{1,2}", "da");
	prefix("x[12]", "x");

	/* no pattern is slow */
	memset(long_key, 'a', 1024);
	long_key[1024] = '\0';
	for (int i = 0; i < 1020; i += 2)
	{
		stars[i] = '*';
		stars[i + 1] = 'a';
	}
	stars[1020] = 'b';
	stars[1021] = '\0';
	no(stars, long_key);
	memset(stars, '*', 1000);
	memcpy(stars + 1000, "/b", 3);
	no(stars, long_key);

	hidden("a/_SUCCESS", 0, true);
	hidden("a/.part.crc", 0, true);
	hidden("_temporary/a", 0, true);
	hidden("_temporary/a", 11, false);
	hidden("a/b.csv", 0, false);
	hidden("a_b/c.d", 0, false);
	hidden("_year=2024/a.csv", 0, false);
	hidden("d/_x.csv", 3, false);
	hidden("d/_x=1.csv", 0, true);
	return tap_end();
}

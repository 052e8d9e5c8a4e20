/*
 * tap.h
 *		A tiny harness: checks that print TAP, one test program per module of core.
 *
 * A program calls the checks below and ends with "return tap_end();".  Everything is static, so that a program
 * is its test file and the module, nothing else.
 */
#ifndef PGOS_TAP_H
#define PGOS_TAP_H

#include "core/base.h"

static int tap_run = 0;
static int tap_failed = 0;

/* Results that a test does not free stay reachable from here, so that a leak checker reports real leaks only. */
typedef struct TapKept
{
	const void	   *pointer;
	struct TapKept *next;
} TapKept;
static TapKept *tap_kept = NULL;

/* One check; the rest is its name.  Returns whether it held. */
static pg_attribute_unused()
	__attribute__((format(printf, 2, 3))) bool ok(bool good, const char *fmt, ...)
{
	char	name[200];
	va_list args;
	char   *p;

	va_start(args, fmt);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	/* TAP is made of lines. */
	for (p = name; *p != '\0'; p++)
	{
		if (*p == '\n' || *p == '\r')
			*p = '_';
	}

	tap_run++;
	if (!good)
		tap_failed++;
	printf("%sok %d - %s\n", good ? "" : "not ", tap_run, name);
	fflush(stdout);
	return good;
}

static pg_attribute_unused() const char *keep(const char *text)
{
	TapKept *kept = palloc(sizeof(TapKept));

	kept->pointer = text;
	kept->next = tap_kept;
	tap_kept = kept;
	return text;
}

static pg_attribute_unused() bool is_str(const char *got, const char *want, const char *name)
{
	bool good = got == want || (got != NULL && want != NULL && strcmp(got, want) == 0);

	ok(good, "%s", name != NULL ? name : "(no name)");
	if (!good)
		printf("#   got:  %s\n#   want: %s\n", got ? got : "(null)", want ? want : "(null)");
	return good;
}

static pg_attribute_unused() bool is_int(int64 got, int64 want, const char *name)
{
	bool good = got == want;

	ok(good, "%s", name != NULL ? name : "(no name)");
	if (!good)
		printf("#   got:  " INT64_FORMAT "\n#   want: " INT64_FORMAT "\n", got, want);
	return good;
}

/* True if text (may be NULL) contains part. */
static pg_attribute_unused() bool has_str(const char *text, const char *part, const char *name)
{
	bool good = text != NULL && strstr(text, part) != NULL;

	ok(good, "%s", name != NULL ? name : "(no name)");
	if (!good)
		printf("#   got:  %s\n#   want: ...%s...\n", text ? text : "(null)", part);
	return good;
}

/* Prints the plan: its absence tells the runner that the program died.  The exit status of main(). */
static int
tap_end(void)
{
	printf("1..%d\n", tap_run);
	fflush(stdout);
	return tap_failed == 0 ? 0 : 1;
}

#endif

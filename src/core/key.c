/*
 * key.c
 *		Object keys: the layout of a dataset in the store, and what a path of the user's may be.
 */
#include "core/key.h"

#include "core/utc.h"
#include "mb/pg_wchar.h"

static bool
is_control(unsigned char c)
{
	return c < 0x20 || c == 0x7f;
}

static bool
component_is(const char *start, size_t len, const char *what)
{
	return len == strlen(what) && memcmp(start, what, len) == 0;
}

void
pgos_key_component(StringInfo out, const char *name)
{
	const char *p = name;
	const char *end = name + strlen(name);

	while (p < end)
	{
		const char *valid_end = p + pg_encoding_verifymbstr(PG_UTF8, p, (int) (end - p));

		for (; p < valid_end; p++)
		{
			unsigned char c = (unsigned char) *p;

			if (c == '/' || c == '%' || c == '.' || is_control(c))
				appendStringInfo(out, "%%%02X", c);
			else
				appendStringInfoChar(out, *p);
		}
		if (p < end)
			appendStringInfo(out, "%%%02X", (unsigned char) *p++);
	}
}

char *
pgos_key_dataset(const char *database, const char *schema, const char *table, pg_time_t enqueued,
				 int64 job)
{
	StringInfoData key;
	char		   time[PGOS_UTC_SIZE];

	pgos_utc_format(enqueued, time);
	initStringInfo(&key);
	pgos_key_component(&key, database);
	appendStringInfoChar(&key, '/');
	pgos_key_component(&key, schema);
	appendStringInfoChar(&key, '.');
	pgos_key_component(&key, table);
	appendStringInfo(&key, "/%s-" INT64_FORMAT "/", time, job);
	return key.data;
}

char *
pgos_key_object(const char *folder, int index, PgosFormat format, PgosCompression compression,
				const char *suffix)
{
	return psprintf("%spart-%05d%s%s%s%s", folder, index, suffix != NULL ? "-" : "",
					suffix != NULL ? suffix : "", pgos_format_extension(format),
					pgos_compression_extension(compression));
}

const char *
pgos_key_check(const char *key)
{
	size_t		len = strlen(key);
	const char *p;
	const char *start;

	if (len == 0)
		return "The path is empty.";
	if (len > PGOS_KEY_MAX_LEN)
		return "The path is longer than 1024 bytes in UTF-8.";
	if (key[0] == '/')
		return "The path begins with \"/\"; paths are relative to the server's url.";
	for (p = key; *p != '\0'; p++)
	{
		if (is_control((unsigned char) *p))
			return "The path contains a control character.";
	}
	if (pg_encoding_verifymbstr(PG_UTF8, key, (int) len) != (int) len)
		return "The path is not valid UTF-8.";

	/* Component by component; the empty one behind a final '/' is allowed. */
	for (start = key; *start != '\0';)
	{
		const char *slash = strchr(start, '/');
		size_t		component_len = slash != NULL ? (size_t) (slash - start) : strlen(start);
		bool		last = slash == NULL || slash[1] == '\0';

		if (component_len == 0)
			return "The path contains \"//\".";
		if (component_is(start, component_len, ".") || component_is(start, component_len, ".."))
			return "The path contains the component \".\" or \"..\".";
		if (last && component_is(start, component_len, PGOS_MANIFEST_NAME))
			return "The name \"" PGOS_MANIFEST_NAME "\" is reserved for the manifest of a dataset.";
		start += component_len + (slash != NULL ? 1 : 0);
	}
	return NULL;
}

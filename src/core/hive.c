/*
 * hive.c
 *		Folders named key=value.
 */
#include "core/hive.h"

#define NULL_FOLDER "__HIVE_DEFAULT_PARTITION__"

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* %XX undone; a '%' that is followed by anything else (or by 00) stands for itself. */
static char *
decode(const char *text, size_t len)
{
	char *result = palloc(len + 1);
	char *out = result;

	for (size_t i = 0; i < len; i++)
	{
		int high = i + 2 < len && text[i] == '%' ? hex_digit(text[i + 1]) : -1;
		int low = high >= 0 ? hex_digit(text[i + 2]) : -1;

		if (low >= 0 && high + low > 0)
		{
			*out++ = (char) (high * 16 + low);
			i += 2;
		}
		else
			*out++ = text[i];
	}
	*out = '\0';
	return result;
}

bool
pgos_hive_next(const char *key, size_t *position, char **name, char **value)
{
	for (;;)
	{
		const char *start = key + *position;
		const char *slash = strchr(start, '/');
		const char *equals = strchr(start, '=');

		if (slash == NULL)
			return false;
		*position = slash + 1 - key;
		if (equals == NULL || equals == start || equals > slash)
			continue;
		*name = decode(start, equals - start);
		*value = NULL;
		if ((size_t) (slash - equals - 1) != strlen(NULL_FOLDER) ||
			strncmp(equals + 1, NULL_FOLDER, strlen(NULL_FOLDER)) != 0)
			*value = decode(equals + 1, slash - equals - 1);
		return true;
	}
}

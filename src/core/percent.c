/*
 * percent.c
 *		Percent-encoding of RFC 3986, and the way back.
 */
#include "core/percent.h"

/* The unreserved characters of RFC 3986.  isalnum() would depend on the locale. */
static bool
is_unreserved(unsigned char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
		   c == '.' || c == '_' || c == '~';
}

static int
hex_value(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

void
pgos_percent_encode(StringInfo out, const char *text, bool keep_slash)
{
	static const char	 digits[] = "0123456789ABCDEF";
	const unsigned char *p;

	for (p = (const unsigned char *) text; *p != '\0'; p++)
	{
		if (is_unreserved(*p) || (keep_slash && *p == '/'))
			appendStringInfoChar(out, *p);
		else
		{
			appendStringInfoChar(out, '%');
			appendStringInfoChar(out, digits[*p >> 4]);
			appendStringInfoChar(out, digits[*p & 15]);
		}
	}
}

bool
pgos_percent_decode(StringInfo out, const char *text, bool plus_is_space)
{
	const unsigned char *p = (const unsigned char *) text;
	int					 old_len = out->len;

	while (*p != '\0')
	{
		if (*p == '%')
		{
			int high = hex_value(p[1]);
			int low = high < 0 ? -1 : hex_value(p[2]);

			if (low < 0 || (high == 0 && low == 0))
			{
				out->len = old_len;
				out->data[old_len] = '\0';
				return false;
			}
			appendStringInfoChar(out, (char) (high << 4 | low));
			p += 3;
		}
		else
		{
			appendStringInfoChar(out, plus_is_space && *p == '+' ? ' ' : *p);
			p++;
		}
	}
	return true;
}

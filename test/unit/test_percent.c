/*
 * test_percent.c
 *		Percent-encoding and decoding.
 */
#include "tap.h"

#include "core/percent.h"

static void
encodes(const char *text, bool keep_slash, const char *want)
{
	StringInfoData out;

	initStringInfo(&out);
	pgos_percent_encode(&out, text, keep_slash);
	is_str(out.data, want, want[0] ? want : "(empty)");
	pfree(out.data);
}

static void
decodes(const char *text, bool plus_is_space, const char *want)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfoString(&out, "before:");
	ok(pgos_percent_decode(&out, text, plus_is_space), "decodes \"%s\"", text);
	is_str(out.data + 7, want, "decoded text");
	pfree(out.data);
}

static void
malformed(const char *text)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfoString(&out, "before");
	ok(!pgos_percent_decode(&out, text, true), "refuses \"%s\"", text);
	is_str(out.data, "before", "nothing appended");
	is_int(out.len, 6, "length as it was");
	pfree(out.data);
}

int
main(void)
{
	char		   all[256];
	StringInfoData encoded;
	StringInfoData decoded;
	const char	  *p;
	bool		   clean = true;
	int			   i;

	/* RFC 3986, 2.3: unreserved characters, and nothing else, stay. */
	encodes("ABCXYZabcxyz0189-._~", false, "ABCXYZabcxyz0189-._~");
	encodes("", false, "");
	encodes("a/b", true, "a/b");
	encodes("a/b", false, "a%2Fb");
	encodes(" +=:@%*'\"", true, "%20%2B%3D%3A%40%25%2A%27%22");
	encodes("!$&(),;?#[]", true, "%21%24%26%28%29%2C%3B%3F%23%5B%5D");
	encodes("\\^`{|}<>", true, "%5C%5E%60%7B%7C%7D%3C%3E");
	encodes("%41", true, "%2541");
	encodes("\303\244\342\202\254\360\237\220\230", true, "%C3%A4%E2%82%AC%F0%9F%90%98");
	encodes("\001\037\177\377", true, "%01%1F%7F%FF");

	decodes("", true, "");
	decodes("a%2Fb%2fc", true, "a/b/c");
	decodes("a+b%2Bc%20d", true, "a b+c d");
	decodes("a+b%2Bc%20d", false, "a+b+c d");
	decodes("%C3%A4", true, "\303\244");
	decodes("%2541", true, "%41");
	decodes("%aF%fa", true, "\257\372");

	malformed("%");
	malformed("abc%");
	malformed("abc%4");
	malformed("%4g");
	malformed("%g4");
	malformed("%-1");
	malformed("% 1");
	malformed("%%41");
	malformed("a%00b");

	/* Every byte there and back; the encoded form is of RFC 3986's characters only. */
	for (i = 0; i < 255; i++)
		all[i] = (char) (i + 1);
	all[255] = '\0';
	initStringInfo(&encoded);
	initStringInfo(&decoded);
	pgos_percent_encode(&encoded, all, false);
	for (p = encoded.data; *p; p++)
	{
		if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%", *p) ==
			NULL)
			clean = false;
	}
	ok(clean, "encoded form is plain");
	is_int(encoded.len, 66 + 3 * (255 - 66), "66 unreserved characters");
	ok(pgos_percent_decode(&decoded, encoded.data, true), "all bytes decode");
	is_str(decoded.data, all, "all bytes come back");
	pfree(encoded.data);
	pfree(decoded.data);
	return tap_end();
}

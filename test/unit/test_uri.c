/*
 * test_uri.c
 *		URLs of stores and endpoints: what is taken, what is refused and why.
 */
#include "tap.h"

#include "core/uri.h"

static void
uri(const char *text, PgosScheme scheme, const char *bucket, const char *prefix)
{
	PgosUri		result;
	const char *error = pgos_uri_parse(text, &result);

	is_str(error, NULL, text);
	if (error != NULL)
		return;
	is_int(result.scheme, scheme, "scheme");
	is_str(result.bucket, bucket, "bucket");
	is_str(result.prefix, prefix, "prefix");
	if (result.bucket != NULL)
		pfree(result.bucket);
	pfree(result.prefix);
}

static void
bad_uri(const char *text, const char *part)
{
	PgosUri result;

	has_str(keep(pgos_uri_parse(text, &result)), part, text);
	ok(result.bucket == NULL && result.prefix == NULL, "nothing returned");
}

static void
endpoint(const char *text, bool tls, const char *host, int port, bool port_is_default)
{
	PgosEndpoint result;
	const char	*error = keep(pgos_endpoint_parse(text, &result));

	is_str(error, NULL, text);
	if (error != NULL)
		return;
	is_int(result.tls, tls, "tls");
	is_str(result.host, host, "host");
	is_int(result.port, port, "port");
	is_int(result.port_is_default, port_is_default, "port is the default");
	pfree(result.host);
}

static void
bad_endpoint(const char *text, const char *part)
{
	PgosEndpoint result;
	const char	*error = keep(pgos_endpoint_parse(text, &result));

	has_str(error, part, text);
	ok(result.host == NULL && result.port == 0, "nothing returned");
	ok(error == NULL || strstr(error, "hunter2") == NULL, "no password in the message");
}

/* head, then count times 'x', then tail, in a static buffer. */
static const char *
fill(const char *head, int count, const char *tail)
{
	static char buffer[4096];
	size_t		len = strlen(head);

	memcpy(buffer, head, len);
	memset(buffer + len, 'x', count);
	memcpy(buffer + len + count, tail, strlen(tail) + 1);
	return buffer;
}

static void
test_uris(void)
{
	uri("s3://bucket", PGOS_SCHEME_S3, "bucket", "");
	uri("s3://bucket/", PGOS_SCHEME_S3, "bucket", "");
	uri("s3://bucket/a", PGOS_SCHEME_S3, "bucket", "a");
	uri("s3://bucket/a/b/", PGOS_SCHEME_S3, "bucket", "a/b");
	uri("S3://bucket/A", PGOS_SCHEME_S3, "bucket", "A");
	uri("gs://my.bucket-1/x", PGOS_SCHEME_GS, "my.bucket-1", "x");
	uri("s3://Old_Bucket/x", PGOS_SCHEME_S3, "Old_Bucket", "x");
	uri("s3://abc/a b+c=d@e:f", PGOS_SCHEME_S3, "abc", "a b+c=d@e:f");
	uri("s3://abc/%41%2F", PGOS_SCHEME_S3, "abc", "%41%2F");
	uri("s3://abc/\303\244/.a/b..", PGOS_SCHEME_S3, "abc", "\303\244/.a/b..");
	uri(fill("s3://", 63, "/p"), PGOS_SCHEME_S3,
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "p");
	uri("file:///var/lib/x", PGOS_SCHEME_FILE, NULL, "/var/lib/x");
	uri("file:///var/lib/x/", PGOS_SCHEME_FILE, NULL, "/var/lib/x");
	uri("file:/var", PGOS_SCHEME_FILE, NULL, "/var");
	uri("file:objstore", PGOS_SCHEME_FILE, NULL, "objstore");
	uri("file:a/b/", PGOS_SCHEME_FILE, NULL, "a/b");
	uri("FILE:a", PGOS_SCHEME_FILE, NULL, "a");

	bad_uri("", "begins with");
	bad_uri("bucket", "begins with");
	bad_uri("s3:bucket", "begins with");
	bad_uri("s3:/bucket", "begins with");
	bad_uri(" s3://bucket", "begins with");
	bad_uri("azure://bucket", "begins with");
	bad_uri("https://bucket.s3.amazonaws.com", "endpoint");
	bad_uri("s3://", "no bucket");
	bad_uri("s3:///a", "no bucket");
	bad_uri("s3://ab", "at least 3");
	bad_uri(fill("s3://", 64, ""), "at most 63");
	bad_uri("s3://buc ket", "consists of");
	bad_uri("s3://b\303\274cket", "consists of");
	bad_uri("s3://buc%6Bet", "consists of");
	bad_uri("s3://-bucket", "begins and ends");
	bad_uri("s3://bucket.", "begins and ends");
	bad_uri("s3://buc..ket", "two dots");
	bad_uri("s3://...", "two dots");
	bad_uri("s3://localhost:9000/bucket", "endpoint");
	bad_uri("s3://user@bucket/a", "user mapping");
	bad_uri("s3://user:pass@bucket/a", "user mapping");
	bad_uri("s3://bucket?versions", "query");
	bad_uri("s3://bucket/a?b=c", "query");
	bad_uri("s3://bucket/a#b", "fragment");
	bad_uri("s3://bucket//a", "//");
	bad_uri("s3://bucket/a//b", "//");
	bad_uri("s3://bucket/a//", "//");
	bad_uri("s3://bucket//", "//");
	bad_uri("s3://bucket/a/../b", "component");
	bad_uri("s3://bucket/..", "component");
	bad_uri("s3://bucket/./a", "component");
	bad_uri("s3://bucket/../", "component");
	bad_uri("s3://bucket/a\nb", "control");
	bad_uri("s3://bucket\001", "control");
	bad_uri(fill("s3://bucket/", 1025, ""), "1024");
	bad_uri("file:", "no directory");
	bad_uri("file:/", "no directory");
	bad_uri("file:///", "no directory");
	bad_uri("file://", "no host");
	bad_uri("file://host/dir", "no host");
	bad_uri("file:////dir", "//");
	bad_uri("file:///a//b", "//");
	bad_uri("file:..", "component");
	bad_uri("file:../x", "component");
	bad_uri("file:///a/../b", "component");
	bad_uri("file:a?b", "query");
}

/* Google's limit for names with dots: 222. */
static void
test_long_bucket(void)
{
	PgosUri		result;
	const char *error = pgos_uri_parse(fill("gs://", 218, ".com"), &result);

	is_str(error, NULL, "Google's long names with dots");
	if (error == NULL)
	{
		is_int(strlen(result.bucket), 222, "its length");
		pfree(result.bucket);
		pfree(result.prefix);
	}
	bad_uri(fill("gs://", 219, ".com"), "at most 222");
	bad_uri(fill("gs://", 64, ""), "at most 63");
	bad_uri(fill("s3://", 60, ".com"), "at most 63");
}

static void
test_endpoints(void)
{
	endpoint("https://s3.example.com", true, "s3.example.com", 443, true);
	endpoint("http://s3.example.com", false, "s3.example.com", 80, true);
	endpoint("https://s3.example.com/", true, "s3.example.com", 443, true);
	endpoint("HTTPS://S3.Example.COM:443", true, "s3.example.com", 443, true);
	endpoint("https://s3.example.com:80", true, "s3.example.com", 80, false);
	endpoint("http://localhost:7480", false, "localhost", 7480, false);
	endpoint("http://my_minio:9000/", false, "my_minio", 9000, false);
	endpoint("http://127.0.0.1:65535", false, "127.0.0.1", 65535, false);
	endpoint("http://h:1", false, "h", 1, false);
	endpoint("http://1a.2b", false, "1a.2b", 80, true);
	endpoint("https://xn--bcher-kva.example", true, "xn--bcher-kva.example", 443, true);
	endpoint("http://[::1]", false, "[::1]", 80, true);
	endpoint("https://[2001:DB8::1]:9000/", true, "[2001:db8::1]", 9000, false);
	endpoint("http://[::ffff:127.0.0.1]:80", false, "[::ffff:127.0.0.1]", 80, true);

	bad_endpoint("localhost:9000", "https://localhost:9000");
	bad_endpoint("s3.example.com", "https://s3.example.com");
	bad_endpoint("[::1]:9000", "https://[::1]:9000");
	bad_endpoint("", "begins with https://");
	bad_endpoint("//host", "begins with https://");
	bad_endpoint("ftp://host", "begins with https://");
	bad_endpoint("s3://bucket", "begins with https://");
	bad_endpoint("user:hunter2@host", "begins with https://");
	bad_endpoint("hunter2/x@host", "begins with https://");
	bad_endpoint("https:/host", "begins with https://");
	bad_endpoint("https://", "no host");
	bad_endpoint("https:///", "no host");
	bad_endpoint("https://:9000", "no host");
	bad_endpoint("https://user:hunter2@host", "user mapping");
	bad_endpoint("https://user@host:9000/", "user mapping");
	bad_endpoint("https://host/path", "path");
	bad_endpoint("https://host//", "path");
	bad_endpoint("https://host?x", "path or a query");
	bad_endpoint("https://host/?x", "path or a query");
	bad_endpoint("https://host#x", "path or a query");
	bad_endpoint("https://host:", "65535");
	bad_endpoint("https://host:0", "65535");
	bad_endpoint("https://host:65536", "65535");
	bad_endpoint("https://host:100000", "65535");
	bad_endpoint("https://host:4294967297", "65535");
	bad_endpoint("https://host:-1", "65535");
	bad_endpoint("https://host:+80", "65535");
	bad_endpoint("https://host:80x", "65535");
	bad_endpoint("https://host:http", "65535");
	bad_endpoint("https://ho st", "blank");
	bad_endpoint(" https://host", "blank");
	bad_endpoint("https://host\r\nx: y", "control");
	bad_endpoint("https://.host", "dot");
	bad_endpoint("https://host.", "dot");
	bad_endpoint("https://a..b", "dot");
	bad_endpoint("https://-a.b", "\"-\"");
	bad_endpoint("https://a-.b", "\"-\"");
	bad_endpoint("https://a%41", "consists of");
	bad_endpoint("https://a*b", "consists of");
	bad_endpoint("https://b\303\274cher.example", "xn--");
	bad_endpoint("https://256.1.1.1", "IPv4");
	bad_endpoint("https://1.2.3", "IPv4");
	bad_endpoint("https://2130706433", "IPv4");
	bad_endpoint("https://1.2.3.4.5", "IPv4");
	bad_endpoint("https://a.1", "IPv4");
	bad_endpoint("https://::1", "brackets");
	bad_endpoint("https://::1:9000", "brackets");
	bad_endpoint("https://[::1", "closing bracket");
	bad_endpoint("https://[]", "IPv6");
	bad_endpoint("https://[::1%25eth0]", "IPv6");
	bad_endpoint("https://[1.2.3.4]", "IPv6");
	bad_endpoint("https://[:::1]", "IPv6");
	bad_endpoint("https://[::1]9000", "may only be");
	bad_endpoint("https://[::1]x9000", "may only be");
	bad_endpoint("https://[::1]:", "65535");
	bad_endpoint(fill("https://", 64, ".com"), "63");
	bad_endpoint(fill("https://", 254, ""), "253");
}

int
main(void)
{
	test_uris();
	test_long_bucket();
	test_endpoints();
	return tap_end();
}

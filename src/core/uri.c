/*
 * uri.c
 *		Where a store lives: the server option url, and the endpoint it is reached at.
 *
 * Strings of a parsed result are palloc'd in the current context.  Text that is refused is repeated in a
 * message only when it cannot hold a password.
 */
#include "core/uri.h"

#include <arpa/inet.h>

#define MAX_PREFIX_LEN 1024 /* a key has no more, a path name neither */
#define MIN_BUCKET_LEN 3
#define MAX_BUCKET_LEN 63
#define MAX_GS_BUCKET_LEN 222 /* Google: in all, if there are dots in it */
#define MAX_HOST_LEN 253
#define MAX_LABEL_LEN 63

static const char *const user_in_url = "A user name or password does not belong into the URL; "
									   "credentials are options of the user mapping.";

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c);
}

/* The text behind the scheme (case does not matter), or NULL if it begins otherwise. */
static const char *
skip_scheme(const char *text, const char *scheme)
{
	size_t len = strlen(scheme);

	return pg_strncasecmp(text, scheme, len) == 0 ? text + len : NULL;
}

static bool
has_control(const char *text)
{
	const unsigned char *p;

	for (p = (const unsigned char *) text; *p != '\0'; p++)
	{
		if (*p < 0x20 || *p == 0x7f)
			return true;
	}
	return false;
}

/* ---------------------------------------------------------------- url of a store */

static const char *
check_bucket(const char *bucket, size_t len, PgosScheme scheme)
{
	bool   dots = memchr(bucket, '.', len) != NULL;
	size_t max_len = MAX_BUCKET_LEN;
	size_t i;

	if (scheme == PGOS_SCHEME_GS && dots)
		max_len = MAX_GS_BUCKET_LEN;

	if (len == 0)
		return "The URL names no bucket.";
	if (memchr(bucket, '@', len) != NULL)
		return user_in_url;
	if (memchr(bucket, ':', len) != NULL)
		return "The URL names a bucket, not a host and port; those belong into the option "
			   "\"endpoint\".";
	for (i = 0; i < len; i++)
	{
		if (!is_alnum(bucket[i]) && strchr(".-_", bucket[i]) == NULL)
			return "A bucket's name consists of letters, digits, \".\", \"-\" and \"_\".";
		if (i > 0 && bucket[i] == '.' && bucket[i - 1] == '.')
			return "A bucket's name has no two dots in a row.";
	}
	if (len < MIN_BUCKET_LEN)
		return "A bucket's name has at least 3 characters.";
	if (len > max_len)
		return psprintf("A bucket's name has at most %d characters.", (int) max_len);
	if (strchr(".-", bucket[0]) != NULL || strchr(".-", bucket[len - 1]) != NULL)
		return "A bucket's name begins and ends with a letter or a digit.";
	return NULL;
}

/* Checks the components of a prefix or directory, which has no leading '/' and no trailing one. */
static const char *
check_components(const char *path, size_t len)
{
	const char *start = path;
	const char *end = path + len;

	if (len > MAX_PREFIX_LEN)
		return "The path in the URL is longer than 1024 bytes.";
	while (start < end)
	{
		const char *slash = memchr(start, '/', end - start);
		size_t		component_len = (slash != NULL ? slash : end) - start;

		if (component_len == 0)
			return "The path in the URL contains \"//\".";
		if (start[0] == '.' && (component_len == 1 || (component_len == 2 && start[1] == '.')))
			return "The path in the URL contains the component \".\" or \"..\".";
		start += component_len;
		if (start < end)
			start++;
	}
	return NULL;
}

/* rest: what follows "s3://" or "gs://". */
static const char *
parse_bucket_url(const char *rest, PgosUri *uri)
{
	size_t		bucket_len = strcspn(rest, "/");
	const char *prefix = rest + bucket_len;
	size_t		prefix_len;
	const char *error = check_bucket(rest, bucket_len, uri->scheme);

	if (error != NULL)
		return error;

	if (*prefix == '/')
		prefix++;
	prefix_len = strlen(prefix);
	/* One slash at the end is only notation.  If there are two, the one left is the leading "//". */
	if (prefix_len > 0 && prefix[prefix_len - 1] == '/')
	{
		prefix_len--;
		if (prefix_len == 0 || prefix[prefix_len - 1] == '/')
			return "The path in the URL contains \"//\".";
	}
	error = check_components(prefix, prefix_len);
	if (error != NULL)
		return error;

	uri->bucket = pnstrdup(rest, bucket_len);
	uri->prefix = pnstrdup(prefix, prefix_len);
	return NULL;
}

/* rest: what follows "file:". */
static const char *
parse_file_url(const char *rest, PgosUri *uri)
{
	const char *path = rest;
	size_t		len;
	bool		absolute;
	const char *error;

	if (path[0] == '/' && path[1] == '/')
	{
		path += 2;
		if (*path != '/')
			return "A file: URL has no host: write file:///dir for an absolute directory, or "
				   "file:dir "
				   "for one below the data directory.";
	}

	len = strlen(path);
	absolute = *path == '/';
	if (absolute)
	{
		path++;
		len--;
	}
	if (len == 0)
		return "The URL names no directory.";
	if (path[len - 1] == '/')
	{
		len--;
		if (len == 0 || path[len - 1] == '/')
			return "The path in the URL contains \"//\".";
	}
	error = check_components(path, len);
	if (error != NULL)
		return error;

	uri->bucket = NULL;
	uri->prefix = absolute ? psprintf("/%.*s", (int) len, path) : pnstrdup(path, len);
	return NULL;
}

static const char *
parse_uri(const char *text, PgosUri *uri)
{
	const char *rest;

	if (has_control(text))
		return "The URL contains a control character.";
	if (strpbrk(text, "?#") != NULL)
		return "The URL has a query or a fragment (\"?\" or \"#\"); it may only have a path.";

	if ((rest = skip_scheme(text, "s3://")) != NULL)
	{
		uri->scheme = PGOS_SCHEME_S3;
		return parse_bucket_url(rest, uri);
	}
	if ((rest = skip_scheme(text, "gs://")) != NULL)
	{
		uri->scheme = PGOS_SCHEME_GS;
		return parse_bucket_url(rest, uri);
	}
	if ((rest = skip_scheme(text, "file:")) != NULL)
	{
		uri->scheme = PGOS_SCHEME_FILE;
		return parse_file_url(rest, uri);
	}
	if (skip_scheme(text, "http://") != NULL || skip_scheme(text, "https://") != NULL)
		return "The URL names the store as s3://bucket/prefix or gs://bucket/prefix; the address "
			   "of the "
			   "service belongs into the option \"endpoint\".";
	return "A URL begins with s3://bucket, gs://bucket, file:///dir or file:dir.";
}

const char *
pgos_uri_parse(const char *text, PgosUri *uri)
{
	const char *error;

	memset(uri, 0, sizeof(*uri));
	error = parse_uri(text, uri);
	if (error != NULL)
		memset(uri, 0, sizeof(*uri));
	return error;
}

/* ---------------------------------------------------------------- endpoint */

/* A host name or an IPv4 address. */
static const char *
check_host(const char *host, size_t len)
{
	const char *label = host;
	const char *end = host + len;
	bool		numeric = false;

	if (len == 0)
		return "The endpoint names no host.";
	if (len > MAX_HOST_LEN)
		return "A host name has at most 253 characters.";

	for (;;)
	{
		const char *dot = memchr(label, '.', end - label);
		size_t		label_len = (dot != NULL ? dot : end) - label;
		size_t		i;

		if (label_len == 0)
			return "The host name begins or ends with a dot, or has two dots in a row.";
		if (label_len > MAX_LABEL_LEN)
			return "The parts of a host name between its dots have at most 63 characters each.";
		numeric = true;
		for (i = 0; i < label_len; i++)
		{
			if (!is_digit(label[i]))
				numeric = false;
			if ((unsigned char) label[i] >= 0x80)
				return "The host name contains letters beyond ASCII; write it in its \"xn--\" "
					   "form.";
			/* '_' is in no proper host name, but in many of container networks. */
			if (!is_alnum(label[i]) && label[i] != '-' && label[i] != '_')
				return "A host name consists of letters, digits, \".\" and \"-\".";
		}
		if (label[0] == '-' || label[label_len - 1] == '-')
			return "No part of a host name begins or ends with \"-\".";
		if (dot == NULL)
			break;
		label = dot + 1;
	}

	/* A last label of digits only makes it an address: resolvers read "1.2.3" in surprising ways. */
	if (numeric)
	{
		char		   buffer[MAX_HOST_LEN + 1];
		struct in_addr address;

		memcpy(buffer, host, len);
		buffer[len] = '\0';
		if (inet_pton(AF_INET, buffer, &address) != 1)
			return "The endpoint's host is not a valid IPv4 address.";
	}
	return NULL;
}

/* address: what is between the brackets. */
static const char *
check_ipv6(const char *address, size_t len)
{
	char			buffer[INET6_ADDRSTRLEN];
	struct in6_addr parsed;

	if (len < sizeof(buffer))
	{
		memcpy(buffer, address, len);
		buffer[len] = '\0';
		if (inet_pton(AF_INET6, buffer, &parsed) == 1)
			return NULL;
	}
	return "The endpoint's host in brackets is not a valid IPv6 address.";
}

/* text: the digits behind the colon. */
static const char *
parse_port(const char *text, size_t len, int *port)
{
	size_t i;

	*port = 0;
	for (i = 0; i < len && i < 5 && is_digit(text[i]); i++)
		*port = *port * 10 + (text[i] - '0');
	if (len == 0 || i < len || *port < 1 || *port > 65535)
		return "The endpoint's port is not a number from 1 to 65535.";
	return NULL;
}

/* rest: what follows "http://" or "https://". */
static const char *
parse_authority(const char *rest, PgosEndpoint *endpoint)
{
	size_t		len = strcspn(rest, "/?#");
	size_t		host_len;
	const char *colon;
	const char *error;
	int			default_port = endpoint->tls ? 443 : 80;
	char	   *p;

	if (memchr(rest, '@', len) != NULL)
		return user_in_url;
	if (rest[len] != '\0' && strcmp(rest + len, "/") != 0)
		return "The endpoint has a path or a query; it may only have a host and a port (the bucket "
			   "belongs "
			   "into the option \"url\").";

	if (rest[0] == '[')
	{
		const char *bracket = memchr(rest, ']', len);

		if (bracket == NULL)
			return "The endpoint's IPv6 address has no closing bracket.";
		host_len = bracket + 1 - rest;
		error = check_ipv6(rest + 1, host_len - 2);
		if (error == NULL && host_len < len && rest[host_len] != ':')
			error = "Behind the endpoint's IPv6 address there may only be \":\" and a port.";
		colon = host_len < len ? rest + host_len : NULL;
	}
	else
	{
		colon = memchr(rest, ':', len);
		if (colon != NULL && memchr(colon + 1, ':', rest + len - colon - 1) != NULL)
			return "An IPv6 address is written in brackets, as in https://[::1]:9000.";
		host_len = colon != NULL ? (size_t) (colon - rest) : len;
		error = check_host(rest, host_len);
	}
	if (error != NULL)
		return error;

	endpoint->port = default_port;
	if (colon != NULL)
	{
		error = parse_port(colon + 1, rest + len - colon - 1, &endpoint->port);
		if (error != NULL)
			return error;
	}
	endpoint->port_is_default = endpoint->port == default_port;
	endpoint->host = pnstrdup(rest, host_len);
	for (p = endpoint->host; *p != '\0'; p++)
		*p = pg_ascii_tolower((unsigned char) *p);
	return NULL;
}

const char *
pgos_endpoint_parse(const char *text, PgosEndpoint *endpoint)
{
	const char *rest;
	const char *error;

	memset(endpoint, 0, sizeof(*endpoint));
	if (has_control(text) || strchr(text, ' ') != NULL)
		return "The endpoint contains a blank or a control character.";

	if ((rest = skip_scheme(text, "https://")) != NULL)
		endpoint->tls = true;
	else if ((rest = skip_scheme(text, "http://")) == NULL)
	{
		/* Only a text that would be right otherwise is repeated: it holds no password then. */
		error = parse_authority(text, endpoint);
		if (error == NULL)
		{
			pfree(endpoint->host);
			memset(endpoint, 0, sizeof(*endpoint));
			return psprintf("An endpoint begins with https:// or http://, as in https://%s.", text);
		}
		memset(endpoint, 0, sizeof(*endpoint));
		return "An endpoint begins with https:// or http://, as in "
			   "https://storage.example.com:9000.";
	}

	error = parse_authority(rest, endpoint);
	if (error != NULL)
		memset(endpoint, 0, sizeof(*endpoint));
	return error;
}

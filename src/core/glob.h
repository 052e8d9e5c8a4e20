/*
 * glob.h
 *		Patterns over object keys.
 *
 *		*		any run of characters without '/', also none
 *		?		one character, not '/'
 *		**		any run of characters; "**" and a '/' at the beginning of a component: any number of folders, also none
 *		[a-z]	one of these characters, [!a-z] or [^a-z] one that is not; never '/'
 *		{a,b}	one of the alternatives, which may be patterns
 *		\x		the character x itself
 *
 * A pattern that ends in '/' means everything below such folders.  Keys and patterns are UTF-8; a byte that is
 * not counts as one character.  Matching takes time proportional to the product of the lengths of pattern and
 * key, whatever the pattern is.
 *
 * Runs anywhere; raises nothing but out of memory.  A compiled pattern is palloc'd.
 */
#ifndef PGOS_GLOB_H
#define PGOS_GLOB_H

#include "core/base.h"

typedef struct PgosGlob PgosGlob;

/*
 * Whether the path has a character that makes it a pattern: '*', '?', '[' or '{', also an escaped one, whose
 * backslash is then no part of the key.
 */
extern bool pgos_glob_is_pattern(const char *path);

/* NULL, with *problem what is wrong with it as a sentence for DETAIL (static), if it cannot be read. */
extern PgosGlob *pgos_glob_compile(const char *pattern, const char **problem);
extern void		 pgos_glob_free(PgosGlob *glob);

/* Not to be called by two threads at a time: the pattern holds the working memory. */
extern bool pgos_glob_match(PgosGlob *glob, const char *key);

/* What every key that matches begins with (escapes undone); may be "". */
extern const char *pgos_glob_prefix(const PgosGlob *glob);

/*
 * Whether a key is one that nobody means when he names a folder or pattern: below the first prefix_len bytes of
 * it, a folder or the name itself begins with '_' or '.' (as _SUCCESS, _temporary/..., .part.crc); a folder
 * "_name=value" is no such.
 */
extern bool pgos_glob_is_hidden(const char *key, size_t prefix_len);

#endif

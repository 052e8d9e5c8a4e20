/*
 * errors.h
 *		The one place that turns failures of a store into PostgreSQL errors.
 *
 * A PgosFailure says what failed (operation), on what (server, key, HTTP status, request id) and what to do
 * (hint).  Texts that come from outside must already be free of secrets; the http and store layers never put
 * an Authorization header, a signed URL or a credential into one.
 *
 * Runs in any backend.  pgos_failure_raise() raises; nothing else here does.
 */
#ifndef PGOS_ERRORS_H
#define PGOS_ERRORS_H

#include "postgres.h"

#include "compat.h"

typedef struct PgosFailure
{
	int	  sqlstate;	  /* MAKE_SQLSTATE() code; 0 while there is no failure */
	char *message;	  /* primary message, lower case, no final stop */
	char *detail;	  /* or NULL */
	char *hint;		  /* or NULL */
	char *request_id; /* the store's id of the request, or NULL */
} PgosFailure;

/* ereport(ERROR) with all fields of the failure; remembers its request id for pgos_failure_request_id(). */
extern void pgos_failure_raise(const PgosFailure *failure) pg_attribute_noreturn();

/* The request id of the failure raised last in this process, or NULL.  Valid until the next reset. */
extern const char *pgos_failure_request_id(void);
extern void		   pgos_failure_reset(void);

/*
 * The member of the NULL-terminated list that a mistyped word is closest to, or NULL when none is close
 * (edit distance of more than a third of its length).
 */
extern const char *pgos_nearest_word(const char *word, const char *const *list);

/* "a, b, c" of a NULL-terminated list, palloc'd. */
extern char *pgos_join_words(const char *const *list);

#endif

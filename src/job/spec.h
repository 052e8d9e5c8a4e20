/*
 * spec.h
 *		The arguments of objstore_push and objstore_pull: checked at the call, kept as JSON in the job's row,
 *		read again by the worker.
 */
#ifndef PGOS_SPEC_H
#define PGOS_SPEC_H

#include "job/job.h"

/* Words as the caller gave them; NULL where an argument was NULL. */
typedef struct PgosSpecWords
{
	const char *format;
	const char *compression;
	List	   *columns;
	const char *if_exists;
	const char *own_folder; /* "true" or NULL */
	const char *mode;
	const char *on_conflict;
	const char *on_error;
	const char *schema; /* of a pull's relation */
	const char *table;
	int			parallel;  /* 0: not given */
	const char *layout;	   /* of tables */
	List	   *relids;	   /* Oid list */
	List	   *relations; /* char * */
	Jsonb	   *options;
} PgosSpecWords;

/*
 * Checks the words and returns the spec; raises with the name of the argument or option, the values it may
 * have and the nearest one.  Also makes COPY check its own options.
 */
extern PgosSpec *pgos_spec_parse(PgosJobKind kind, const PgosSpecWords *words);

extern Jsonb	*pgos_spec_to_json(const PgosSpecWords *words);
extern PgosSpec *pgos_spec_from_json(PgosJobKind kind, Jsonb *json);

/* The string that member `name` of the object has, palloc'd; NULL if there is none (or it is no string). */
extern char *pgos_json_string(Jsonb *object, const char *name);

/* Why a pull with these arguments cannot be shared by several workers, as a sentence; NULL if it can. */
extern const char *pgos_spec_pull_unsplittable(const PgosSpec *spec);

#endif

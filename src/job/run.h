/*
 * run.h
 *		Running one job: what the worker calls.
 */
#ifndef PGOS_RUN_H
#define PGOS_RUN_H

#include "compat.h"
#include "job/job.h"
#include "stream/sink.h"
#include "utils/relcache.h"

/*
 * What a run leaves for the clean-up after an error: the worker calls pgos_run_cleanup() outside of the error,
 * with no transaction open.
 */
typedef struct PgosRun
{
	PgosJob			 *job;
	MemoryContext	  context;	 /* lives as long as the job; the store and the streams are in it */
	struct PgosStore *store;	 /* or NULL */
	List			 *sinks;	 /* upload sinks that may be unfinished */
	List			 *written;	 /* of PgosJobObject: complete, but of no use without a manifest */
	struct PgosTeam	 *team;		 /* that leader or helper belongs to, or NULL */
	bool			  staging;	 /* a pull has made tables that have not got their place yet */
	bool			  published; /* the dataset is visible: nothing may be taken away any more */
	char *publishing; /* folder whose manifest was sent, whether it has arrived or not; or NULL */
	PgosJobResult result;
} PgosRun;

/*
 * These are called with no transaction open and CurrentMemoryContext = run->context, and return so.
 * pgos_push_run() leaves the job's end to the caller; pgos_pull_run() commits it with the rows.
 */
extern void pgos_push_run(PgosRun *run);

/* The part of a helper in run->team, which it has joined. */
extern void pgos_push_help(PgosRun *run);
extern void pgos_pull_run(PgosRun *run);
extern void pgos_pull_tables_run(PgosRun *run);

/*
 * Takes back what a push that failed has written: open uploads, objects without a manifest.  Uses the network;
 * raises if the store refuses.
 */
extern void pgos_push_cleanup(PgosRun *run);

/* The same for a pull by several workers. */
extern void pgos_pull_help(PgosRun *run);
extern void pgos_pull_cleanup(PgosRun *run);
extern void pgos_pull_give_up(PgosRun *run);
extern void pgos_pull_tables_help(PgosRun *run);
extern void pgos_pull_tables_cleanup(PgosRun *run);
extern void pgos_pull_tables_give_up(PgosRun *run);

/* For a push that was begun more often than allowed: takes back what the attempts before have left. */
extern void pgos_push_give_up(PgosRun *run);

/* Progress of this process, for the view. */
extern void pgos_progress_reset(void);
extern void pgos_progress_rows(int64 rows);
extern void pgos_progress_bytes(int64 raw_bytes, int64 stored_bytes, int parts);
extern void pgos_progress_percent(int64 done_units, int64 total_units);

/*
 * Opens run->store in the run's context, in a transaction of its own.  The role must have USAGE on the server still,
 * and the server must exist still.
 */
extern void pgos_run_open_store(PgosRun *run);

/*
 * How rows of a pull became values, for the job's row: copy_reason NULL: directly; else why by COPY or INSERT.  The
 * first of the reasons is kept.
 */
extern void pgos_run_note_engine(PgosRun *run, const char *copy_reason);

/* For a helper that sees another dataset in the team's folder than the leader. */
extern void pgos_run_dataset_changed(PgosRun *run) pg_attribute_noreturn();

/* After an error in the leader of a team: its helpers stop. */
extern void pgos_run_stop_team(PgosRun *run);

/* Deletes all rows of a table that a pull replaces.  Readers keep them until the commit. */
extern void pgos_run_delete_rows(Relation rel);

/* Runs a command such as CREATE or DROP.  Needs an active snapshot. */
extern void pgos_run_utility(const char *sql);

/* Names between the server's encoding and the store's UTF-8. */
extern char *pgos_text_to_utf8(const char *text);
extern char *pgos_text_from_utf8(const char *text, size_t len);

#endif

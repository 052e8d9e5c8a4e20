/*
 * push_cleanup.c
 *		What a push that has failed takes back: its helpers, open uploads, objects without a manifest.
 *
 * Where the manifest was sent and its answer is lost, the store is asked: a dataset that is there stays.
 *
 * Runs in a worker, after the error, with no transaction open; raises if the store refuses.
 */
#include "postgres.h"

#include "compat.h"
#include "job/manifest.h"
#include "job/push_internal.h"
#include "job/run.h"
#include "job/spec.h"
#include "job/team.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "store/store.h"
#include "stream/upload.h"

/* How often, and after what pauses, a manifest is looked for whose answer was lost. */
#define PGOS_PUBLISH_LOOKS 4
#define PGOS_PUBLISH_LOOK_MS 500

/* Removes an object if it is still the one that we wrote. */
static void
pgos_push_remove_written(PgosRun *run, const char *key, const char *etag)
{
	PgosObjectInfo info;

	if (pgos_store_head(run->store, key, &info) && (etag == NULL || strcmp(info.etag, etag) == 0))
		pgos_store_delete(run->store, key);
}

/*
 * The answer to the manifest is lost, by an error or a cancel: whether it is there.  A server that has it in hand is
 * given some time.
 */
static bool
pgos_push_has_published(PgosRun *run)
{
	static uint32 wait_event = 0;

	for (int i = 0;; i++)
	{
		PgosManifest *manifest = pgos_manifest_read(run->store, run->publishing);

		if (manifest != NULL && pgos_manifest_is_of_job(manifest, run->job))
			return true;
		/* that of another, which ours may not replace */
		if (manifest != NULL && run->job->spec->if_exists == PGOS_IF_EXISTS_ERROR)
			return false;
		if (i == PGOS_PUBLISH_LOOKS)
			return false;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 PGOS_PUBLISH_LOOK_MS,
						 PGOS_COMPAT_WAIT_EVENT(wait_event, "ObjstorePublish"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

void
pgos_push_cleanup(PgosRun *run)
{
	List	 *written = run->written;
	char	 *lost = NULL; /* where a helper has left open uploads */
	ListCell *lc;

	/* first, as the store may fail us: helpers take back what they are at; what they had finished is left to us */
	if (run->team != NULL && run->team->leader_pid == MyProcPid)
	{
		PgosTeam *team = run->team;
		PgosPush *push = pgos_push_begin(run);

		pgos_team_stop(team);
		push->suffix = team->suffix[0] != '\0' ? pstrdup(team->suffix) : NULL;
		written = list_concat(pgos_push_team_objects(push, team), written);
		if (team->lost)
			lost = push->place;
		run->team = NULL;
		pgos_team_release(team);
	}
	/* the lock on the place is kept meanwhile: who comes next must not have its objects taken for ours */
	if (run->published || run->store == NULL)
		return;
	foreach (lc, run->sinks)
		pgos_upload_sink_abort(lfirst(lc));
	run->published = run->publishing != NULL && pgos_push_has_published(run);
	if (run->published)
		return;
	foreach (lc, written)
	{
		PgosJobObject *object = lfirst(lc);

		pgos_push_remove_written(run, object->key, object->etag);
	}
	if (lost != NULL)
		(void) pgos_upload_abort_all(run->store, lost);
}

void
pgos_push_give_up(PgosRun *run)
{
	if (run->job->path == NULL)
		return;
	pgos_run_open_store(run);
	(void) pgos_upload_abort_all(run->store, pgos_text_to_utf8(run->job->path));
}

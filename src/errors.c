/*
 * errors.c
 *		Failures of a store become PostgreSQL errors; help with mistyped words.
 *
 * The request id of the last failure is kept in static memory, because ErrorData has no field for it and the
 * job's row wants it.  Runs in any backend; only pgos_failure_raise() raises.
 */
#include "postgres.h"

#include <ctype.h>

#include "errors.h"
#include "lib/stringinfo.h"

/* Words longer than this are no option names: they are not compared. */
#define MAX_WORD 63

static char last_request_id[128];

void
pgos_failure_raise(const PgosFailure *failure)
{
	pgos_failure_reset();
	if (failure->request_id != NULL)
		strlcpy(last_request_id, failure->request_id, sizeof(last_request_id));

	ereport(ERROR,
			(errcode(failure->sqlstate != 0 ? failure->sqlstate : ERRCODE_INTERNAL_ERROR),
			 errmsg_internal("%s", failure->message != NULL ? failure->message : "store failed"),
			 failure->detail != NULL ? errdetail_internal("%s", failure->detail) : 0,
			 failure->hint != NULL ? errhint("%s", failure->hint) : 0));
	pg_unreachable();
}

const char *
pgos_failure_request_id(void)
{
	return last_request_id[0] != '\0' ? last_request_id : NULL;
}

void
pgos_failure_reset(void)
{
	last_request_id[0] = '\0';
}

/*
 * Levenshtein distance of two words, without regard to case, where two neighbours that are swapped count as
 * one; both at most MAX_WORD long.
 */
static int
word_distance(const char *a, const char *b)
{
	int rows[3][MAX_WORD + 1];
	int alen = (int) strlen(a);
	int blen = (int) strlen(b);

	for (int j = 0; j <= blen; j++)
		rows[0][j] = j;
	for (int i = 1; i <= alen; i++)
	{
		int		  *row = rows[i % 3];
		const int *above = rows[(i + 2) % 3];
		const int *above2 = rows[(i + 1) % 3];

		row[0] = i;
		for (int j = 1; j <= blen; j++)
		{
			int ca = tolower((unsigned char) a[i - 1]);
			int cb = tolower((unsigned char) b[j - 1]);

			row[j] = above[j - 1] + (ca == cb ? 0 : 1);
			row[j] = Min(row[j], above[j] + 1);
			row[j] = Min(row[j], row[j - 1] + 1);
			if (i > 1 && j > 1 && ca == tolower((unsigned char) b[j - 2]) &&
				cb == tolower((unsigned char) a[i - 2]))
				row[j] = Min(row[j], above2[j - 2] + 1);
		}
	}
	return rows[alen % 3][blen];
}

const char *
pgos_nearest_word(const char *word, const char *const *list)
{
	const char *nearest = NULL;
	int			nearest_distance = 0;

	if (strlen(word) > MAX_WORD)
		return NULL;
	for (; *list != NULL; list++)
	{
		int distance;

		if (strlen(*list) > MAX_WORD)
			continue;
		distance = word_distance(word, *list);
		if (distance * 3 > (int) Max(strlen(word), strlen(*list)))
			continue;
		if (nearest == NULL || distance < nearest_distance)
		{
			nearest = *list;
			nearest_distance = distance;
		}
	}
	return nearest;
}

char *
pgos_join_words(const char *const *list)
{
	StringInfoData out;

	initStringInfo(&out);
	for (; *list != NULL; list++)
		appendStringInfo(&out, "%s%s", out.len > 0 ? ", " : "", *list);
	return out.data;
}

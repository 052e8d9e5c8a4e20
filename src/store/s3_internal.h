/*
 * s3_internal.h
 *		Shared by the files of the S3 driver only.
 *
 * s3.c is the driver's table, opening and single-object requests; s3_request.c one call of the API: signing,
 * judging, failing; s3_upload.c multipart uploads; s3_list.c listings; s3_error.c failures in words; s3_xml.c
 * answers.
 */
#ifndef PGOS_S3_INTERNAL_H
#define PGOS_S3_INTERNAL_H

#include "postgres.h"

#include "core/sigv4.h"
#include "store/s3_xml.h"
#include "store/store_driver.h"
#include "utils/resowner.h"

/* Longest answer with an error or a short result in it. */
#define PGOS_S3_MAX_ANSWER (1024 * 1024)
#define PGOS_S3_MAX_KEY 1024

/* Metadata that tells an object of this upload from any other. */
#define PGOS_S3_TOKEN_HEADER "x-amz-meta-pgobjstore-upload"

/* store->state */
typedef struct PgosS3
{
	char				 *host;		   /* the Host header */
	char				 *base_url;	   /* "https://host:port/" */
	char				 *endpoint;	   /* "host:port", for messages */
	char				 *bucket_path; /* "" with virtual-host style, else "/bucket" */
	char				 *key_prefix;  /* "" or "prefix/" */
	PgosSigv4Credentials  credentials;
	PgosSigv4Key		  signing_key;
	MemoryContextCallback callback; /* wipes the key */
	bool				  answered; /* it has been seen to speak HTTP */
	int64
		clock_offset; /* seconds that the server's clock is ahead of ours, once it has complained */
} PgosS3;

/* What an answer that is no success said; strings "" when it did not say. */
typedef struct PgosS3Error
{
	int	  status;
	char *code;
	char *message; /* the store's own words, printable ASCII, bounded */
	char *request_id;
	char *region; /* the right one */
} PgosS3Error;

typedef struct PgosS3Call PgosS3Call;

/*
 * Decides what a complete answer means; returns false to leave it to the general rules (2xx is success, error
 * codes by table).  call->error is filled in for an answer outside 2xx; while a refusal is
 * verified it stays that of the refusal.
 */
typedef bool (*PgosS3Decide)(PgosS3Call *call, const PgosHttpReply *reply,
							 PgosHttpVerdict *verdict);

#define PGOS_S3_MAX_PARAMS 8

struct PgosS3Call
{
	PgosRequest base;
	PgosHttpOp *op;
	char	   *action; /* 'upload part 3 of "bucket/key" to', for messages */

	PgosHttpMethod method;
	char		  *path; /* encoded */
	PgosNameValue  query[PGOS_S3_MAX_PARAMS];
	int			   nquery;
	PgosNameValue  headers[PGOS_S3_MAX_PARAMS];
	int			   nheaders;
	const void	  *body;
	size_t		   body_len;
	char		   payload_hash[PGOS_SHA256_HEX_SIZE];
	size_t		   body_max; /* of the answer */

	/* Ranged GET */
	void  *dest;
	int64  offset;
	size_t dest_len;
	size_t dest_have;	  /* bytes received and trusted */
	char   if_match[128]; /* the version that the bytes in dest are of; "" while not known */

	PgosS3Decide	decide;		  /* or NULL */
	void		   *arg;		  /* decide's */
	bool			not_found_ok; /* 404 (but not of the bucket) is success with not_found set */
	bool			conditional;  /* 409 and 412 mean that the key exists already */
	PgosObjectInfo *info;		  /* the caller's, or NULL */

	/* How it went */
	bool		verifying; /* second step: a HEAD settles what the first one left open */
	bool		refused;   /* the first step was answered by what is in error, not by a success */
	int			verifications; /* second steps begun */
	bool		not_found;
	bool		skew_corrected;
	bool		ambiguous; /* it failed, but the server may have done it */
	PgosS3Error error;	   /* in base.context */
	int			sqlstate;  /* set by decide together with reason, or 0 */
	const char *reason;	   /* instead of the status and code in the message, or NULL */
	const char *hint;	   /* instead of the table's, or NULL */
};

/* ---------------------------------------------------------------- s3_request.c */

/*
 * A call on the key (relative to the store's prefix; NULL: on the bucket).  The action's format gets the
 * display form of "bucket/key" as its %s; it must end so that ' server "x"' can follow.
 */
extern PgosS3Call *
pgos_s3_call_create(PgosStore *store, PgosHttpMethod method, const char *key, const char *action);
/* Strings are not copied: constants, or memory that lives as long as the call. */
extern void pgos_s3_call_query(PgosS3Call *call, const char *name, const char *value);
extern void pgos_s3_call_header(PgosS3Call *call, const char *name, const char *value);
extern void pgos_s3_call_body(PgosS3Call *call, const void *body, size_t len);
extern void pgos_s3_call_start(PgosS3Call *call);
/* Starts it and waits until it is done; the failure is left in call->base. */
extern void pgos_s3_call_run(PgosS3Call *call);
/* Starts it, waits, raises its failure.  The caller frees it with pgos_request_cancel(). */
extern void pgos_s3_call_run_or_raise(PgosS3Call *call);
/* Makes HEAD of the same key the next step; PGOS_HTTP_FAIL when there were enough. */
extern PgosHttpVerdict pgos_s3_call_verify(PgosS3Call *call);

/*
 * The server's crypto functions register with a resource owner, which there is none of outside a transaction.
 * Makes sure of one and returns CurrentResourceOwner as it was, for the caller to set it back.
 */
extern ResourceOwner pgos_s3_borrow_resource_owner(void);

/* Copies what headers say; size is Content-Length. */
extern void pgos_s3_info(const PgosHttpReply *reply, PgosObjectInfo *info);

/* ---------------------------------------------------------------- s3_error.c */

/* Fills error (in the given context) from an answer outside 2xx, or a body that holds an <Error>. */
extern void pgos_s3_error_read(PgosS3Call *call, const PgosHttpReply *reply, const PgosXml *xml);
/* What the error's code says about trying again; PGOS_HTTP_DONE when the code says nothing. */
extern PgosHttpVerdict pgos_s3_error_classify(const PgosS3Error *error);
/* Makes the failure of a call that has ended. */
extern void
pgos_s3_error_fail(PgosS3Call *call, const PgosHttpReply *reply, const PgosHttpTries *tries);

/* ---------------------------------------------------------------- s3_upload.c, s3_list.c */

extern PgosUpload *pgos_s3_upload_begin(PgosStore *store, const char *key);
extern PgosRequest *
pgos_s3_upload_part_start(PgosUpload *upload, int part_no, const void *data, size_t len);
extern void pgos_s3_upload_complete(PgosUpload *upload, int64 total_size,
									PgosPutCondition condition, PgosObjectInfo *info);
extern void pgos_s3_upload_abort(PgosUpload *upload);
/* Removes an upload by its id; false when there is none. */
extern bool pgos_s3_abort(PgosStore *store, const char *key, const char *upload_id);

extern int	pgos_s3_upload_abort_all(PgosStore *store, const char *key_prefix);
extern void pgos_s3_list(PgosStore *store, const char *key_prefix, char delimiter,
						 PgosListCallback callback, void *arg);

/* ---------------------------------------------------------------- s3.c */

/* A random value for PGOS_S3_TOKEN_HEADER. */
extern char *pgos_s3_token(MemoryContext context);

extern bool pgos_s3_head(PgosStore *store, const char *key, PgosObjectInfo *info);

#endif

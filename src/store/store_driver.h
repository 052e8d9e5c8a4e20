/*
 * store_driver.h
 *		What a kind of store implements.  Included by the files of store/ only.
 *
 * store.c gives the functions of store.h their common part (contexts, waiting, finishing) and calls the driver
 * through its table.  All of a store's memory is below store->context; a driver registers foreign handles with
 * a reset callback of the context they live in.
 */
#ifndef PGOS_STORE_DRIVER_H
#define PGOS_STORE_DRIVER_H

#include "postgres.h"

#include "errors.h"
#include "http/http.h"
#include "store/store.h"
#include "store/store_options.h"

typedef struct PgosStoreDriver PgosStoreDriver;

struct PgosStore
{
	const PgosStoreDriver *driver;
	MemoryContext		   context; /* child of the one that was current at pgos_store_open() */
	PgosStoreOptions	   options;
	PgosStoreLimits		   limits;
	PgosHttpCounters	   counters;
	PgosStoreCounters	   public_counters; /* what pgos_store_counters() shows */
	int					   in_flight;		/* requests started, not done, not cancelled */
	int64				   completions;		/* requests that became done */
	bool				   hurry;			/* pgos_store_hurry() was called */
	void				  *state;			/* the driver's */
};

/*
 * A request in any state.  Drivers embed it as first member.  `failure` is filled in (in `context`) before
 * pgos_request_set_done(), or left zero for success.
 */
struct PgosRequest
{
	PgosStore			 *store;
	MemoryContext		  context; /* child of store->context; deleted with the request */
	MemoryContextCallback callback;
	bool				  in_flight;
	bool				  done;
	PgosFailure			  failure;
};

struct PgosUpload
{
	PgosStore	 *store;
	MemoryContext context; /* child of store->context */
	char		 *key;	   /* as given */
	char		 *id;	   /* as the store names it */
	int			  nparts;  /* highest part number started */
};

/* All functions are required unless marked; they may raise. */
struct PgosStoreDriver
{
	/* Fills limits and state from options. */
	void (*open)(PgosStore *store);
	/* As pgos_store_url(); key "" for the store itself. */
	char *(*url)(PgosStore *store, const char *key);

	PgosRequest *(*put_start)(PgosStore *store, const char *key, const void *data, size_t len,
							  PgosPutCondition condition, PgosObjectInfo *info);
	PgosRequest *(*get_start)(PgosStore *store, const char *key, int64 offset, size_t len,
							  const char *if_match, void *dest);

	/* Returns an upload made with pgos_upload_create(). */
	PgosUpload *(*upload_begin)(PgosStore *store, const char *key);
	PgosRequest *(*upload_part_start)(PgosUpload *upload, int part_no, const void *data,
									  size_t len);
	void (*upload_complete)(PgosUpload *upload, int64 total_size, PgosPutCondition condition,
							PgosObjectInfo *info);
	void (*upload_abort)(PgosUpload *upload);
	int (*upload_abort_all)(PgosStore *store, const char *key_prefix);

	bool (*head)(PgosStore *store, const char *key, PgosObjectInfo *info);
	char *(*read)(PgosStore *store, const char *key, size_t max_len, size_t *len,
				  PgosObjectInfo *info);
	void (*delete)(PgosStore *store, const char *key);
	void (*list)(PgosStore *store, const char *key_prefix, char delimiter,
				 PgosListCallback callback, void *arg);
};

extern const PgosStoreDriver pgos_s3_driver;
extern const PgosStoreDriver pgos_file_driver;

/*
 * A zeroed request of the given size (which begins with a PgosRequest) in a context of its own, counted as in
 * flight until pgos_request_set_done() or its context goes.
 */
extern PgosRequest *pgos_request_create(PgosStore *store, size_t size);
extern void			pgos_request_set_done(PgosRequest *request);

/* A zeroed upload of the given size (which begins with a PgosUpload) in a context of its own; copies key. */
extern PgosUpload *pgos_upload_create(PgosStore *store, const char *key, size_t size);

/*
 * A key, prefix or other text from outside as it may stand in a message: in the server's encoding, control
 * characters and what cannot be converted as \xNN.  palloc'd.
 */
extern char *pgos_display_text(const char *utf8);

#endif

/* The C face of the engine: what Python (ctypes) and the TensorFlow ops call.
 *
 * Every function that can fail returns a tfr_code; tfr_last_error() then has the message
 * for the calling thread. Strings are UTF-8. All functions may be called from any thread.
 */
#ifndef TFRING_C_API_H_
#define TFRING_C_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TFR_API __attribute__((visibility("default")))

/* Grows whenever a declaration here changes meaning; both sides compare it. */
#define TFR_ABI_VERSION 3
TFR_API int tfr_abi_version(void);

typedef enum tfr_code {
  TFR_OK = 0,
  TFR_INVALID_ARGUMENT = 1, /* the call itself is wrong */
  TFR_MISMATCH = 2,         /* ranks asked for different things under one name */
  TFR_PEER_LOST = 3,        /* a rank died, vanished or left early */
  TFR_STALLED = 4,          /* some ranks never submitted (stall_shutdown_s) */
  TFR_TIMEOUT = 5,          /* rendezvous or wait took too long */
  TFR_SHUT_DOWN = 6,        /* shutdown here while the operation was pending */
  TFR_NOT_INITIALIZED = 7,
  TFR_UNAUTHENTICATED = 8, /* wrong job secret */
  TFR_IO = 9,              /* address in use, unreachable host, ... */
  TFR_INTERNAL = 10,
  TFR_INTERRUPTED = 11 /* the job's membership changes: tfr_interrupt */
} tfr_code;

/* Message of this thread's last failed call; valid until its next call. */
TFR_API const char* tfr_last_error(void);

/* ---- Life cycle ------------------------------------------------------------------- */

/* Joins the job and blocks until every rank has. `options` is lines of "key=value";
 * an unknown key or a bad value is TFR_INVALID_ARGUMENT.
 *
 *   rank size local_rank local_size cross_rank cross_size   whole numbers
 *   host_id               ranks with equal ids share memory
 *   store                 host:port of the store; not needed at size 1
 *   store_serve           1: this rank runs the store at that address
 *   secret                per-job secret, any text without newline
 *   generation            number of the rendezvous (default 0)
 *   listen_address        IP literal to listen on; default: the one that reaches the store
 *   start_timeout_s stall_warning_s stall_shutdown_s heartbeat_timeout_s    seconds,
 *                         decimals allowed; 0 turns the last three off
 *   spin_us               busy wait before sleeping, microseconds
 *   allreduce_algorithm   any exchange doubling direct ring; equal on all ranks
 *   log_level             debug info warning error
 */
TFR_API tfr_code tfr_init(const char* options);

/* Leaves in good order: sends what is queued, ends own pending operations with
 * TFR_SHUT_DOWN. Without init: nothing. Then tfr_init may be called again. */
TFR_API tfr_code tfr_shutdown(void);

TFR_API int tfr_is_initialized(void);
/* -1 when not initialised. */
TFR_API int tfr_rank(void);
TFR_API int tfr_size(void);
TFR_API int tfr_local_rank(void);
TFR_API int tfr_local_size(void);
TFR_API int tfr_cross_rank(void);
TFR_API int tfr_cross_size(void);
/* Number of this rendezvous, equal on all ranks and another after each tfr_init; -1 when
 * not initialised. */
TFR_API int64_t tfr_generation(void);

/* From any thread: generations from 1 to this one are over, for that reason. Operations pending
 * or yet to come fail with TFR_INTERRUPTED, here and on all other ranks of the generation; so
 * does a tfr_init of such a generation, under way or yet to come. tfr_shutdown and tfr_init of
 * a later generation may follow. Generation 0, of jobs that never change, is not concerned. */
TFR_API void tfr_interrupt(int64_t generation, const char* reason);

/* TFR_OK, or why the engine can do no more (a lost peer, an interrupt). */
TFR_API tfr_code tfr_health(void);

/* ---- Process sets ------------------------------------------------------------------ */

/* Id of the set of `count` ranks (strictly increasing), equal on all ranks; the set of
 * all ranks is 0. Registers it with this process; no communication. */
TFR_API tfr_code tfr_add_process_set(const int* ranks, int count, int64_t* id);
TFR_API tfr_code tfr_remove_process_set(int64_t id);

/* ---- Operations -------------------------------------------------------------------- */

typedef enum tfr_dtype {
  TFR_FLOAT16 = 0,
  TFR_BFLOAT16 = 1,
  TFR_FLOAT32 = 2,
  TFR_FLOAT64 = 3,
  TFR_INT8 = 4,
  TFR_UINT8 = 5,
  TFR_INT32 = 6,
  TFR_INT64 = 7,
  TFR_BOOL = 8
} tfr_dtype;

typedef enum tfr_reduce_op {
  TFR_SUM = 0,
  TFR_AVERAGE = 1,
  TFR_MIN = 2,
  TFR_MAX = 3,
  TFR_PRODUCT = 4
} tfr_reduce_op;

typedef enum tfr_kind {
  TFR_ALLREDUCE = 0,
  TFR_BROADCAST = 1,
  TFR_ALLGATHER = 2,
  TFR_BARRIER = 3
} tfr_kind;

typedef struct tfr_tensor {
  const void* input;
  void* output; /* allreduce, broadcast: as large as input, and may be input. A root's
                   output of a broadcast is written too unless it is its input.
                   allgather: ignored, see `allocate`. */
  const int64_t* dims;
  int32_t rank; /* number of dims */
} tfr_tensor;

/* Memory for the gathered tensor `index`. `first_dims` has every member's first
 * dimension (1 for a scalar), in rank order, `members` of them. NULL fails the operation. Called
 * once per tensor from the engine's thread, before `done`. */
typedef void* (*tfr_allocate_fn)(void* arg, int32_t index, const int64_t* first_dims,
                                 int32_t members);

/* Called exactly once, from the engine's thread or from within tfr_submit. `message` is
 * valid during the call; "" when code is TFR_OK. Must not block. */
typedef void (*tfr_done_fn)(void* arg, tfr_code code, const char* message);

typedef struct tfr_request {
  size_t struct_size; /* sizeof(tfr_request) */
  const char* name;   /* operations of one process set match by name; the n-th of a name
                         on one rank matches the n-th on the others. A name may not be
                         submitted again while it is pending here. */
  int64_t process_set;
  tfr_kind kind;
  tfr_dtype dtype;         /* of all tensors */
  tfr_reduce_op reduce_op; /* allreduce */
  int32_t root;            /* broadcast: a rank of the job, member of the set */
  double prescale;         /* allreduce: output = postscale * reduce(prescale * input) */
  double postscale;
  const tfr_tensor* tensors; /* reduced, sent or gathered as one (fused) */
  int32_t num_tensors;
  tfr_allocate_fn allocate; /* allgather */
  void* allocate_arg;
} tfr_request;

/* Starts an operation. Anything but TFR_OK: it has not been started and `done` is not
 * called. The request, its tensors array, dims and strings are copied; tensors' memory
 * stays with the engine until `done`. Outputs of an operation that fails are undefined. */
TFR_API tfr_code tfr_submit(const tfr_request* request, tfr_done_fn done, void* arg);

/* The same, waiting for the end and returning its code. An operation that a lost peer,
 * a mismatch or a stall ends returns that; there is no further time limit. */
TFR_API tfr_code tfr_run(const tfr_request* request);

/* The same in two steps, for callers that have something to do meanwhile. A negative
 * timeout_s waits for ever; else tfr_wait gives TFR_TIMEOUT while the operation runs on, and
 * may be called again; any other code is the operation's own and ends the handle. */
typedef struct tfr_operation tfr_operation;
TFR_API tfr_code tfr_start(const tfr_request* request, tfr_operation** operation);
TFR_API tfr_code tfr_wait(tfr_operation* operation, double timeout_s);

/* tfr_run for callers that must look up between waits (Python, for Ctrl-C). TFR_TIMEOUT when
 * the operation runs on after timeout_s: then *operation is its handle, for tfr_wait. It is
 * NULL otherwise. */
TFR_API tfr_code tfr_run_for(const tfr_request* request, double timeout_s,
                             tfr_operation** operation);

/* ---- Counters ---------------------------------------------------------------------- */

typedef struct tfr_counters {
  size_t struct_size; /* set by the caller */
  int64_t operations; /* completed in good order */
  int64_t failures;
  int64_t allreduce_operations;
  int64_t allreduce_bytes;       /* of tensors, once each */
  double allreduce_seconds;      /* submission to completion, summed over operations */
  double allreduce_busy_seconds; /* with at least one allreduce pending */
  double wait_seconds;           /* part of allreduce_seconds before the last needed peer
                                    had sent its first bytes */
  int64_t sent_bytes;            /* through links, payloads */
  int64_t received_bytes;
  double allreduce_tail_seconds; /* of the last period with allreduces pending: from the last
                                    submission to the end. Nothing was left to compute then,
                                    if the period is the last of a training step. */
} tfr_counters;

/* Totals since the library was loaded; a caller with a shorter struct gets what it knows. */
TFR_API tfr_code tfr_get_counters(tfr_counters* counters);

/* ---- Timeline ---------------------------------------------------------------------- */

/* Records to a file what this process does from now on: this rank's part of a timeline, with
 * at most `most_records` records. With `detail` a record for each piece of work, too.
 * TFR_INVALID_ARGUMENT when recording already. Goes on over shutdown and init. */
TFR_API tfr_code tfr_timeline_start(const char* path, int rank, int detail, int64_t most_records);

/* Ends the file. Nothing when not recording. */
TFR_API tfr_code tfr_timeline_stop(void);

TFR_API int tfr_timeline_recording(void);

/* A span of the caller's: times are nanoseconds of CLOCK_MONOTONIC; `number` is the caller's. */
TFR_API void tfr_timeline_span(const char* name, int64_t begin, int64_t end, int64_t number);

/* A message of the caller's, now. */
TFR_API void tfr_timeline_instant(const char* text);

/* ---- Store: what the launcher runs and agents use ---------------------------------- */

typedef struct tfr_store_server tfr_store_server;
typedef struct tfr_store_client tfr_store_client;

/* port 0: any free one. host: IP literal or name to bind; "" for all interfaces. */
TFR_API tfr_code tfr_store_server_start(const char* host, int port, const char* secret,
                                        tfr_store_server** server);
TFR_API int tfr_store_server_port(const tfr_store_server* server);
TFR_API void tfr_store_server_stop(tfr_store_server* server);

TFR_API tfr_code tfr_store_client_connect(const char* host, int port, const char* secret,
                                          double timeout_s, tfr_store_client** client);
TFR_API void tfr_store_client_close(tfr_store_client* client);
TFR_API tfr_code tfr_store_set(tfr_store_client* client, const char* key, const void* value,
                               size_t size);
/* *value is malloc'ed; free it with tfr_free. */
TFR_API tfr_code tfr_store_get(tfr_store_client* client, const char* key, double timeout_s,
                               void** value, size_t* size);
TFR_API tfr_code tfr_store_add(tfr_store_client* client, const char* key, int64_t delta,
                               int64_t* value);
TFR_API tfr_code tfr_store_delete(tfr_store_client* client, const char* key);
TFR_API void tfr_free(void* memory);

#ifdef __cplusplus
}
#endif

#endif /* TFRING_C_API_H_ */

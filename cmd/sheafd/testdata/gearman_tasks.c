/* A client and workers on libgearman, and a transcript of what they hear, which
 * gearmanclient_library_test.go compares between servers.
 *
 *	cc -o gearman_tasks gearman_tasks.c -lgearman -lpthread
 *	./gearman_tasks HOST PORT PART
 *
 * A part is a name from the list at the end. Each has to have a server for
 * itself, or at least functions that nobody else uses.
 *
 * What happens at the same time is printed in a fixed order: each task has a log
 * of its own. Handles, which differ, are not printed.
 */
#include <libgearman/gearman.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *host;
static in_port_t port;

/* patience is how long anything may take, in milliseconds. */
enum { patience = 20000 };

static void die(const char *what, const char *why)
{
	printf("%s: %s\n", what, why ? why : "?");
	fflush(stdout);
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void nap(int ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
	nanosleep(&t, NULL);
}

/* A journal is lines that are printed later. */
struct journal {
	pthread_mutex_t mu;
	size_t n;
	char text[8192];
};

static void note(struct journal *j, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	pthread_mutex_lock(&j->mu);
	if (j->n < sizeof j->text - 1) {
		int n = vsnprintf(j->text + j->n, sizeof j->text - j->n, format, args);
		j->n += n;
		if (j->n > sizeof j->text - 1)
			j->n = sizeof j->text - 1;
	}
	pthread_mutex_unlock(&j->mu);
	va_end(args);
}

static struct journal *journal(void)
{
	struct journal *j = calloc(1, sizeof *j);
	pthread_mutex_init(&j->mu, NULL);
	return j;
}

static void print_and_free(struct journal *j)
{
	fwrite(j->text, 1, j->n, stdout);
	free(j);
}

/* --- workers --- */

static atomic_bool gate; /* jobs of "gated" wait until it is open */

/* shown is data as text: the beginning of what is long. */
static const char *shown(const void *data, size_t size)
{
	static _Thread_local char text[64];
	if (size > 24)
		snprintf(text, sizeof text, "%.*s... of %zu bytes", 8, (const char *)data, size);
	else
		snprintf(text, sizeof text, "%.*s", (int)size, (const char *)data);
	return text;
}

static void *copy(const void *data, size_t size)
{
	char *p = malloc(size + 1);
	memcpy(p, data, size);
	return p;
}

static void *reverse(gearman_job_st *job, void *context, size_t *size, gearman_return_t *ret)
{
	(void)context;
	const char *in = gearman_job_workload(job);
	*size = gearman_job_workload_size(job);
	char *out = malloc(*size + 1);
	for (size_t i = 0; i < *size; i++)
		out[i] = in[*size - 1 - i];
	*ret = GEARMAN_SUCCESS;
	return out;
}

static void *chatty(gearman_job_st *job, void *context, size_t *size, gearman_return_t *ret)
{
	(void)context;
	for (int i = 1; i <= 3; i++) {
		char part[64];
		int n = snprintf(part, sizeof part, "%.*s part %d", (int)gearman_job_workload_size(job),
			(const char *)gearman_job_workload(job), i);
		gearman_job_send_data(job, part, n);
		gearman_job_send_status(job, i, 3);
	}
	gearman_job_send_warning(job, "careful", 7);
	gearman_job_send_data(job, "", 0);
	*size = 4;
	*ret = GEARMAN_SUCCESS;
	return copy("done", 4);
}

static void *fails(gearman_job_st *job, void *context, size_t *size, gearman_return_t *ret)
{
	(void)context;
	gearman_job_send_data(job, "so far", 6);
	*size = 0;
	*ret = GEARMAN_WORK_FAIL;
	return NULL;
}

static void *throws(gearman_job_st *job, void *context, size_t *size, gearman_return_t *ret)
{
	(void)context;
	gearman_job_send_exception(job, "thrown", 6);
	*size = 0;
	*ret = GEARMAN_WORK_EXCEPTION;
	return NULL;
}

static void *grows(gearman_job_st *job, void *context, size_t *size, gearman_return_t *ret)
{
	(void)context;
	*size = strtoul(gearman_job_workload(job), NULL, 10);
	char *out = malloc(*size + 1);
	for (size_t i = 0; i < *size; i++)
		out[i] = 'a' + i % 23;
	*ret = GEARMAN_SUCCESS;
	return out;
}

static void *sleeps(gearman_job_st *job, void *context, size_t *size, gearman_return_t *ret)
{
	(void)job, (void)context;
	nap(2500);
	*size = 4;
	*ret = GEARMAN_SUCCESS;
	return copy("late", 4);
}

static void *gated(gearman_job_st *job, void *context, size_t *size, gearman_return_t *ret)
{
	(void)context;
	gearman_job_send_status(job, 3, 10);
	while (!gate)
		nap(5);
	*size = 0;
	*ret = GEARMAN_SUCCESS;
	return NULL;
}

/* tells notes what it is given in the journal that is its context. */
static void *tells(gearman_job_st *job, void *context, size_t *size, gearman_return_t *ret)
{
	const char *unique = gearman_job_unique(job);
	note(context, "  worker: %s unique '%s' workload '%s'\n", gearman_job_function_name(job),
		unique && strlen(unique) < 30 ? unique : "(made)", shown(gearman_job_workload(job), gearman_job_workload_size(job)));
	*size = 0;
	*ret = GEARMAN_SUCCESS;
	return NULL;
}

/* splits and joins are the two ends of a reduce job: a task for each word. */
static gearman_return_t splits(gearman_job_st *job, void *context)
{
	(void)context;
	char *text = copy(gearman_job_workload(job), gearman_job_workload_size(job));
	text[gearman_job_workload_size(job)] = 0;
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
		gearman_job_send_data(job, word, strlen(word));
	free(text);
	return GEARMAN_SUCCESS;
}

static gearman_return_t joins(gearman_aggregator_st *aggregator, gearman_task_st *task, gearman_result_st *result)
{
	(void)aggregator;
	char text[256] = "";
	for (; task; task = gearman_next(task)) {
		gearman_result_st *r = gearman_task_result(task);
		size_t n = gearman_result_size(r);
		if (strlen(text) + n + 2 < sizeof text) {
			strncat(text, gearman_result_value(r), n);
			strcat(text, "+");
		}
	}
	gearman_string_t s = {text, strlen(text)};
	return gearman_result_store_string(result, s);
}

static gearman_worker_st *worker(void)
{
	gearman_worker_st *w = gearman_worker_create(NULL);
	if (gearman_failed(gearman_worker_add_server(w, host, port)))
		die("worker", gearman_worker_error(w));
	gearman_worker_set_timeout(w, patience);
	return w;
}

static void can(gearman_worker_st *w, const char *name, uint32_t timeout, gearman_worker_fn *f, void *context)
{
	if (gearman_failed(gearman_worker_add_function(w, name, timeout, f, context)))
		die(name, gearman_worker_error(w));
}

/* work has a worker do n jobs. */
static void work(gearman_worker_st *w, int n)
{
	while (n-- > 0) {
		gearman_return_t ret = gearman_worker_work(w);
		if (ret != GEARMAN_SUCCESS)
			printf("  gearman_worker_work: %s\n", gearman_strerror(ret));
	}
}

/* A crew is threads with a worker each, who can do all that there is. */
struct crew {
	int n;
	atomic_bool over;
	pthread_t threads[4];
};

static void *member(void *arg)
{
	struct crew *c = arg;
	gearman_worker_st *w = worker();
	can(w, "reverse", 0, reverse, NULL);
	can(w, "chatty", 0, chatty, NULL);
	can(w, "fails", 0, fails, NULL);
	can(w, "throws", 0, throws, NULL);
	can(w, "grows", 0, grows, NULL);
	can(w, "gated", 0, gated, NULL);
	can(w, "sleeps", 1, sleeps, NULL);
	gearman_function_t parts = gearman_function_create_partition(splits, joins);
	if (gearman_failed(gearman_worker_define_function(w, "splits", 6, parts, 0, NULL)))
		die("splits", gearman_worker_error(w));
	gearman_worker_set_timeout(w, 50);
	while (!c->over)
		gearman_worker_work(w);
	gearman_worker_free(w);
	return NULL;
}

static void hire(struct crew *c, int n)
{
	c->n = n;
	c->over = false;
	for (int i = 0; i < n; i++)
		pthread_create(&c->threads[i], NULL, member, c);
}

static void dismiss(struct crew *c)
{
	c->over = true;
	for (int i = 0; i < c->n; i++)
		pthread_join(c->threads[i], NULL);
}

/* --- clients --- */

static gearman_client_st *client(void)
{
	gearman_client_st *c = gearman_client_create(NULL);
	if (gearman_failed(gearman_client_add_server(c, host, port)))
		die("client", gearman_client_error(c));
	gearman_client_set_timeout(c, patience);
	return c;
}

static gearman_return_t heard(gearman_task_st *task, const char *what, bool data)
{
	struct journal *j = gearman_task_context(task);
	if (data)
		note(j, "  %s '%s'\n", what, shown(gearman_task_data(task), gearman_task_data_size(task)));
	else
		note(j, "  %s\n", what);
	return GEARMAN_SUCCESS;
}

static gearman_return_t on_created(gearman_task_st *t)
{
	const char *h = gearman_task_job_handle(t);
	return heard(t, strncmp(h, "H:", 2) == 0 && strlen(h) < 64 ? "created" : "created with a strange handle", false);
}
static gearman_return_t on_data(gearman_task_st *t) { return heard(t, "data", true); }
static gearman_return_t on_warning(gearman_task_st *t) { return heard(t, "warning", true); }
static gearman_return_t on_complete(gearman_task_st *t) { return heard(t, "complete", true); }
static gearman_return_t on_exception(gearman_task_st *t) { return heard(t, "exception", true); }
static gearman_return_t on_fail(gearman_task_st *t) { return heard(t, "fail", false); }
static gearman_return_t on_status(gearman_task_st *t)
{
	note(gearman_task_context(t), "  status %u/%u\n", gearman_task_numerator(t), gearman_task_denominator(t));
	return GEARMAN_SUCCESS;
}

static gearman_client_st *listening_client(void)
{
	gearman_client_st *c = client();
	gearman_client_set_created_fn(c, on_created);
	gearman_client_set_data_fn(c, on_data);
	gearman_client_set_warning_fn(c, on_warning);
	gearman_client_set_status_fn(c, on_status);
	gearman_client_set_complete_fn(c, on_complete);
	gearman_client_set_exception_fn(c, on_exception);
	gearman_client_set_fail_fn(c, on_fail);
	return c;
}

/* do_one submits a job with one of the calls that wait, and prints the result. */
typedef void *do_fn(gearman_client_st *, const char *, const char *, const void *, size_t, size_t *, gearman_return_t *);

static void do_one(gearman_client_st *c, const char *name, do_fn *f, const char *function, const char *workload)
{
	size_t size = 0;
	gearman_return_t ret;
	char *out = f(c, function, NULL, workload, strlen(workload), &size, &ret);
	while (ret == GEARMAN_WORK_DATA || ret == GEARMAN_WORK_WARNING || ret == GEARMAN_WORK_STATUS) {
		printf("  %s %s: %s '%s'\n", name, function, gearman_strerror(ret), shown(out ? out : "", out ? size : 0));
		free(out);
		size = 0;
		out = f(c, function, NULL, workload, strlen(workload), &size, &ret);
	}
	printf("  %s %s: %s '%s'\n", name, function, gearman_strerror(ret), shown(out ? out : "", out ? size : 0));
	free(out);
}

static void print_status(gearman_client_st *c, const char *handle, const char *what)
{
	bool known, running;
	uint32_t done, total;
	gearman_return_t ret = gearman_client_job_status(c, handle, &known, &running, &done, &total);
	if (ret != GEARMAN_SUCCESS)
		printf("  %s: %s\n", what, gearman_strerror(ret));
	else
		printf("  %s: known %d running %d at %u/%u\n", what, known, running, done, total);
}

/* --- the parts of the transcript --- */

static void waiting_calls(void)
{
	struct crew crew;
	hire(&crew, 1);
	gearman_client_st *c = client();
	printf("  echo: %s\n", gearman_strerror(gearman_client_echo(c, "hello\0there", 11)));
	do_one(c, "do", gearman_client_do, "reverse", "hello");
	do_one(c, "do", gearman_client_do, "reverse", "");
	do_one(c, "do_high", gearman_client_do_high, "reverse", "hello");
	do_one(c, "do_low", gearman_client_do_low, "reverse", "hello");
	do_one(c, "do", gearman_client_do, "chatty", "x");
	do_one(c, "do", gearman_client_do, "fails", "x");
	do_one(c, "do", gearman_client_do, "grows", "2000000");
	gearman_client_free(c);
	dismiss(&crew);
}

/* run_all runs a task of each function at the same time. */
static void run_all(bool exceptions, const char **functions, int n)
{
	struct journal *journals[n];
	char workloads[n][32];
	struct crew crew;
	hire(&crew, 3);
	gearman_client_st *c = listening_client();
	if (exceptions)
		printf("  option: %d\n", gearman_client_set_server_option(c, "exceptions", 10));
	for (int i = 0; i < n; i++) {
		gearman_return_t ret;
		journals[i] = journal();
		snprintf(workloads[i], sizeof workloads[i], "%d", 100000 * (i + 1));
		note(journals[i], " task %d, %s\n", i, functions[i]);
		gearman_client_add_task(c, NULL, journals[i], functions[i], NULL, workloads[i], strlen(workloads[i]), &ret);
		if (ret != GEARMAN_SUCCESS)
			die("add_task", gearman_strerror(ret));
	}
	/* A task that fails ends this call, but not the others. */
	for (int i = 0; i <= n; i++)
		if (gearman_client_run_tasks(c) == GEARMAN_SUCCESS || !gearman_client_has_active_tasks(c))
			break;
	for (int i = 0; i < n; i++)
		print_and_free(journals[i]);
	gearman_client_free(c);
	dismiss(&crew);
}

static void parallel_tasks(void)
{
	static const char *functions[] = {"reverse", "chatty", "fails", "grows", "chatty", "reverse", "grows", "fails"};
	run_all(false, functions, sizeof functions / sizeof *functions);
}

static void exceptions(void)
{
	static const char *functions[] = {"throws", "chatty", "fails", "throws", "grows"};
	run_all(true, functions, sizeof functions / sizeof *functions);
}

static void unasked_exceptions(void)
{
	static const char *functions[] = {"throws", "chatty", "fails", "throws", "grows"};
	run_all(false, functions, sizeof functions / sizeof *functions);
}

static void background_status(void)
{
	gearman_client_st *c = client();
	gearman_job_handle_t handle;
	gearman_return_t ret = gearman_client_do_background(c, "gated", "watched", "x", 1, handle);
	printf("  do_background: %s\n", gearman_strerror(ret));
	print_status(c, handle, "waiting");
	print_status(c, "H:nobody:1", "unknown");
	struct crew crew;
	gate = false;
	hire(&crew, 1);
	bool known = true, running = false;
	uint32_t done = 0, total = 0;
	for (int i = 0; i < patience / 10 && !(running && total == 10); i++) {
		nap(10);
		gearman_client_job_status(c, handle, &known, &running, &done, &total);
	}
	print_status(c, handle, "at work");
	gearman_status_t s = gearman_client_unique_status(c, "watched", 7);
	printf("  by unique: %s known %d running %d at %u/%u\n", gearman_strerror(gearman_status_return(s)), gearman_status_is_known(s),
		gearman_status_is_running(s), gearman_status_numerator(s), gearman_status_denominator(s));
	gate = true;
	for (int i = 0; i < patience / 10 && known; i++) {
		nap(10);
		gearman_client_job_status(c, handle, &known, &running, &done, &total);
	}
	print_status(c, handle, "done");
	gearman_client_free(c);
	dismiss(&crew);
}

static void priorities(void)
{
	gearman_client_st *c = client();
	gearman_job_handle_t handle;
	gearman_client_do_low_background(c, "tells a", "1", "low a", 5, handle);
	gearman_client_do_background(c, "tells b", "2", "normal b", 8, handle);
	gearman_client_do_high_background(c, "tells b", "3", "high b", 6, handle);
	gearman_client_do_background(c, "tells b", "4", "later b", 7, handle);
	gearman_client_do_low_background(c, "tells a", "5", "last a", 6, handle);
	struct journal *j = journal();
	gearman_worker_st *w = worker();
	can(w, "tells b", 0, tells, j);
	can(w, "tells a", 0, tells, j);
	work(w, 5);
	print_and_free(j);
	gearman_worker_free(w);
	gearman_client_free(c);
}

static void uniques(void)
{
	enum { n = 3 };
	gearman_client_st *c[n];
	struct journal *j[n], *told = journal();
	gearman_return_t ret = GEARMAN_SUCCESS;
	char handles[n][GEARMAN_JOB_HANDLE_SIZE];
	gearman_task_st *tasks[n];
	for (int i = 0; i < n; i++) {
		c[i] = listening_client();
		gearman_client_add_options(c[i], GEARMAN_CLIENT_NON_BLOCKING);
		gearman_client_set_timeout(c[i], patience);
		j[i] = journal();
		note(j[i], " client %d\n", i);
		tasks[i] = gearman_client_add_task(c[i], NULL, j[i], "tells", "shared", "hello", 5, &ret);
		for (;;) {
			ret = gearman_client_run_tasks(c[i]);
			if (strlen(gearman_task_job_handle(tasks[i])) > 0)
				break;
			if (ret != GEARMAN_IO_WAIT || gearman_failed(gearman_client_wait(c[i])))
				die("client", gearman_client_error(c[i]));
		}
		snprintf(handles[i], sizeof handles[i], "%s", gearman_task_job_handle(tasks[i]));
	}
	gearman_client_st *b = client();
	gearman_job_handle_t handle;
	gearman_client_do_background(b, "tells", "shared", "other", 5, handle);
	for (int i = 0; i < n; i++)
		printf("  client %d: %s\n", i, strcmp(handles[i], handle) == 0 ? "the same job" : "another job");
	gearman_worker_st *w = worker();
	can(w, "tells", 0, tells, told);
	work(w, 1);
	for (int i = 0; i < n; i++) {
		while (gearman_client_run_tasks(c[i]) == GEARMAN_IO_WAIT)
			if (gearman_failed(gearman_client_wait(c[i])))
				die("client", gearman_client_error(c[i]));
		print_and_free(j[i]);
		gearman_client_free(c[i]);
	}
	print_and_free(told);
	gearman_client_free(b);
	gearman_worker_free(w);
}

static void epoch(void)
{
	struct journal *j = journal();
	gearman_client_st *c = client();
	gearman_worker_st *w = worker();
	can(w, "tells", 0, tells, j);
	time_t when = time(NULL) + 2;
	gearman_task_attr_t attr = gearman_task_attr_init_epoch(when, GEARMAN_JOB_PRIORITY_NORMAL);
	gearman_argument_t arg = gearman_argument_make(NULL, 0, "later", 5);
	gearman_task_st *task = gearman_execute(c, "tells", 5, "in time", 7, &attr, &arg, NULL);
	printf("  execute: %s\n", task ? gearman_strerror(gearman_task_return(task)) : gearman_client_error(c));
	work(w, 1);
	double at = now();
	printf("  %s\n", at < when ? "too early" : at > when + 10 ? "too late" : "in time");
	print_and_free(j);
	gearman_worker_free(w);
	gearman_client_free(c);
}

static void execute(void)
{
	struct crew crew;
	hire(&crew, 3);
	gearman_client_st *c = client();
	gearman_argument_t arg = gearman_argument_make(NULL, 0, "hello", 5);
	gearman_task_st *task = gearman_execute(c, "reverse", 7, NULL, 0, NULL, &arg, NULL);
	if (task && gearman_task_return(task) == GEARMAN_SUCCESS) {
		gearman_result_st *r = gearman_task_result(task);
		printf("  execute: '%.*s'\n", (int)gearman_result_size(r), gearman_result_value(r));
	} else {
		printf("  execute: %s\n", gearman_client_error(c));
	}
	gearman_argument_t words = gearman_argument_make(NULL, 0, "one two three four", 18);
	/* On a busy machine libgearman sometimes gives up here with GEARMAN_IO_WAIT,
	 * whatever the server; it also says so of what went well. */
	for (int k = 0; k < 20; k++) {
		usleep(k * 20000);
		gearman_client_free(c);
		c = client();
		task = gearman_execute_by_partition(c, "splits", 6, "reverse", 7, NULL, 0, NULL, &words, NULL);
		if (gearman_client_error_code(c) != GEARMAN_IO_WAIT || (task && gearman_task_return(task) == GEARMAN_SUCCESS))
			break;
	}
	if (task && gearman_task_return(task) == GEARMAN_SUCCESS) {
		gearman_result_st *r = gearman_task_result(task);
		printf("  by partition: '%.*s'\n", (int)gearman_result_size(r), gearman_result_value(r));
	} else {
		printf("  by partition: %s\n", gearman_client_error(c));
	}
	gearman_client_free(c);
	dismiss(&crew);
}

static void timeouts(void)
{
	struct crew crew;
	hire(&crew, 1);
	gearman_client_st *c = client();
	do_one(c, "do", gearman_client_do, "sleeps", "x");
	gearman_client_free(c);
	dismiss(&crew);
}

static void nonblocking_worker(void)
{
	struct journal *j = journal();
	gearman_client_st *c = client();
	gearman_worker_st *w = worker();
	gearman_worker_add_options(w, GEARMAN_WORKER_NON_BLOCKING | GEARMAN_WORKER_GRAB_UNIQ);
	gearman_worker_set_identifier(w, "nonblocking", 11);
	can(w, "tells a", 0, tells, j);
	can(w, "tells b", 0, tells, j);
	gearman_return_t ret;
	for (int i = 0; i < 5; i++) {
		ret = gearman_worker_work(w);
		if (ret != GEARMAN_IO_WAIT && ret != GEARMAN_NO_JOBS)
			printf("  without a job: %s\n", gearman_strerror(ret));
		if (ret == GEARMAN_IO_WAIT) {
			gearman_worker_set_timeout(w, 20);
			gearman_worker_wait(w);
		}
	}
	gearman_job_handle_t handle;
	static const char *jobs[] = {"tells a", "tells b", "tells a"};
	for (int i = 0; i < 3; i++) {
		bool able = i != 1;
		if (!able) {
			/* It is told to the server some turns later. */
			gearman_worker_unregister(w, "tells b");
			gearman_worker_set_timeout(w, 100);
			for (int k = 0; k < 8; k++) {
				gearman_worker_work(w);
				gearman_worker_wait(w);
			}
		}
		char unique[8];
		snprintf(unique, sizeof unique, "u%d", i);
		gearman_client_do_background(c, jobs[i], unique, "hello", 5, handle);
		for (int k = 0; k < (able ? patience / 200 : 20); k++) {
			ret = gearman_worker_work(w);
			if (ret == GEARMAN_SUCCESS)
				break;
			gearman_worker_set_timeout(w, able ? 200 : 5);
			gearman_worker_wait(w);
		}
		note(j, "  %s: %s\n", jobs[i], ret == GEARMAN_SUCCESS ? "done" : "not done");
	}
	printf("  exists: a %d b %d\n", gearman_worker_function_exist(w, "tells a", 7), gearman_worker_function_exist(w, "tells b", 7));
	print_and_free(j);
	gearman_worker_free(w);
	w = worker();
	j = journal();
	can(w, "tells b", 0, tells, j);
	work(w, 1);
	printf("  worker echo: %s\n", gearman_strerror(gearman_worker_echo(w, "hello", 5)));
	gearman_worker_unregister_all(w);
	print_and_free(j);
	gearman_worker_free(w);
	gearman_client_free(c);
}

static void many(void)
{
	enum { n = 400 };
	struct crew crew;
	hire(&crew, 4);
	gearman_client_st *c = listening_client();
	gearman_client_add_options(c, GEARMAN_CLIENT_FREE_TASKS);
	struct journal **j = calloc(n, sizeof *j);
	for (int i = 0; i < n; i++) {
		gearman_return_t ret;
		j[i] = journal();
		gearman_client_add_task(c, NULL, j[i], "reverse", NULL, "hello", 5, &ret);
	}
	printf("  run_tasks: %s\n", gearman_strerror(gearman_client_run_tasks(c)));
	int good = 0;
	for (int i = 0; i < n; i++) {
		good += strcmp(j[i]->text, "  created\n  complete 'olleh'\n") == 0;
		free(j[i]);
	}
	free(j);
	printf("  complete: %d\n", good);
	gearman_client_free(c);
	dismiss(&crew);
}

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {
	{"calls that wait", waiting_calls},
	{"tasks in parallel", parallel_tasks},
	{"exceptions", exceptions},
	{"exceptions that nobody asked for", unasked_exceptions},
	{"a background job's status", background_status},
	{"priorities over two functions", priorities},
	{"a unique that three clients and one in the background share", uniques},
	{"a job whose time comes", epoch},
	{"execute and reduce", execute},
	{"a worker that is too slow for its timeout", timeouts},
	{"a worker that does not block and its functions", nonblocking_worker},
	{"400 tasks", many},
};

int main(int argc, char **argv)
{
	if (argc == 4) {
		host = argv[1];
		port = atoi(argv[2]);
		setvbuf(stdout, NULL, _IOLBF, 0);
		for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
			if (strcmp(parts[i].name, argv[3]) == 0) {
				parts[i].run();
				return 0;
			}
		}
	}
	fprintf(stderr, "usage: gearman_tasks HOST PORT PART\n");
	return 2;
}

// Package shard is the engine of sheaf: one actor that owns the tubes hashed
// onto it, and every job in them. A job's state changes here and nowhere else.
//
// # The actor
//
// A Shard is one goroutine at a time. All of its state (tubes, jobs, heaps,
// deadlines, and what it knows of each client) belongs to the goroutine whose
// turn it is, so none of it is locked or atomic. Others reach it by posting
// Requests to its mailbox and nothing else:
//
//	connection ──post(chain of requests)──▶ mailbox ──take(all)──▶ shard
//	     ▲                                                           │
//	     └────────────── one wake-up for the whole chain ◀───────────┘
//
// The shard has a goroutine of its own, which serves turn after turn while
// there is anything in the mailbox, then marks the mailbox as parked and
// sleeps. A goroutine that posts to a parked mailbox has thereby taken the turn.
// Without a log it serves that turn itself, on the spot, and parks the mailbox
// again, or wakes the shard's goroutine if more has come meanwhile. So a client that
// is alone is answered without any goroutine being woken, and under load the shard's
// goroutine does all the work. With a log the poster always wakes that goroutine.
//
// A Request is owned by whoever holds it: by the connection until it is
// posted, by the shard until it is answered, by the connection again after.
// It carries the answer back. The mailbox is drained whole, served in order,
// and the clients whose chains are answered are woken when the batch is done;
// that is the place where a log can hold answers back until they are durable.
//
// # Waiting
//
// All that the shards share about a client is its Waiter: a claim, which is one
// atomic word, and a wake-up. The claim decides every race about a client that
// waits in reserve: whichever shard, deadline or cancellation moves it out of
// Waiting has won and answers; all others see that it is taken.
//
//	            single shard                       several shards (router)
//	Open ──no job──▶ Waiting              Probing ──nothing anywhere──▶ Waiting
//	 │ hang-up          │ │                  │ a better job came
//	 ▼                  │ └─cancel──▶ Cancelled
//	Closed              ▼                    ▼
//	             Claimed ──▶ Granted       Dirty ──▶ the router asks again
//
// The same word has a sequence number that is new each time a reserve is posted, so
// what a shard remembers of an earlier wait can never win a later one.
//
// Package router documents how a reserve over several shards is settled with Probe
// and Take.
//
// # Gearman
//
// A function of Gearman is a tube, and what is submitted to it is a job with a
// Task, which holds what beanstalkd's jobs do not have: a unique by which others
// are coalesced with it, a reducer, and the clients that wait for its end. task.go
// draws its life. A Gearman client never waits in the shard: a worker that finds no
// job asks for an event when there is one (Doze), and results reach the client that
// submitted the job as events, too. They go through an Inbox, which shards fill and
// the client's connection empties.
//
// Both protocols order jobs alike: by priority, where high is 0, normal 1024 and
// low 4294967295, and then by id. A job that was submitted by Gearman has no TTR while
// a Gearman worker has it; a beanstalkd worker has it for taskTTR, an hour.
//
// # What is promised
//
//   - A job is with at most one client at a time, and in exactly one place: the
//     ready heap or the delay heap or the buried list of its tube, or the held
//     heap of one client.
//   - Ready jobs leave a tube by (priority, id), waiting clients are served in
//     the order in which they began to wait.
//   - The cost of a command depends on the tubes, jobs and clients that it touches,
//     and on how many others there are by a logarithm at most. One timer serves all
//     deadlines of a shard.
//   - No command on the hot path allocates in steady state, with two exceptions: a put
//     of a large body, which the connection has allocated, and one put in 512, for
//     which the directory makes 16 pages of 256 bytes each.
//   - No command, and nothing that comes due, keeps others waiting for more than about
//     a thousand jobs at a time, nor puts more into a batch of the log than belongs in
//     one; nor do the reserves of a pipeline look through more than some hundred
//     thousand tubes at a time: see steps.go. The exceptions are a single reserve, which
//     looks through all that its client watches here; a report on a Gearman job, which
//     all that wait for the job hear at once; and lists and statistics, which go through
//     all tubes and clients at once, as GET_STATUS_UNIQUE does through the functions.
//   - Only two things wait for the disk: an answer that tells of a change, until the
//     change is in the log; and a change that finds the disk full, while cleaning is
//     about to make room.
//   - Large bodies are never copied; an answer refers to the job's body even when
//     the job is deleted before the answer has been written.
//   - The garbage collector does nothing for each job.
//
// # Memory
//
// Jobs are in memory of their shard that the garbage collector does not know (see
// slab), and what refers to many of them, heaps and the directory, holds no pointers
// for it to follow either. With ordinary memory, ten million jobs and their bodies took
// the collector a second of a core, in which clients had to wait for hundreds of
// milliseconds. When some jobs go and others stay, slab and directory keep more memory
// than is in use; the memory budget counts that, but for a slack (see slab and
// Directory).
//
// So a body of up to Inline bytes is stored behind its job, and copied twice: to
// there, and from there for an answer, since the job may be gone, and its slot be
// another's, before the answer is written (see Waiter.Keep). A larger body, where a copy
// would cost more, stays where it was read, and the collector frees it; there are fewer
// of those.
//
// # Many cores
//
// What follows is reasoning: there were only two cores to measure on.
//
// Under load a shard's state stays with one core, that of its goroutine. (A shard
// that is mostly idle is served by whoever finds it so: then its state moves from
// core to core, which costs less than waking its goroutine.) Memory that several
// cores write on the hot path is of two kinds. The first goes back and forth between
// one client and one shard: the requests, of two or three cache lines each, small
// bodies in the Waiter's buffer, and the Waiter. That costs each command a few hundred
// nanoseconds, however many cores there are. The mailbox is written by all who post to
// one shard, once a chain, and by the shard, once a batch. All the work of one tube is
// done by one core, so no tube can be faster than that.
//
// The second kind is shared by all cores; a cache line of it changes hands in 50 to
// 100 ns:
//
//   - The counter of job ids, since ids rise in the order of the puts, as clients
//     expect. It is written once for up to 64 puts that are next to each other in the
//     mailbox; but once for each put whose body comes later than its line, and for
//     each if there is a log or a cap on memory, where a put that is refused takes no
//     id.
//   - The lock of the directory: taken once in 32 ids, when a page has become empty,
//     and once in 512, when a group of pages is made. With two cores it was held for
//     6 ns for each id that comes and goes; where all cache lines that it covers come
//     from other cores it may be 20.
//   - The directory's pages: ids in a row share a cache line, most often of one shard.
//   - The memory budget: written once in 64 KiB by each shard, and its peak beside it while
//     that rises. With a cap, puts read it, and each body that does not come whole with
//     its put writes it once or more.
//   - The list of tubes, which the first shard keeps: that gets a message for each tube
//     that is made or goes, on any shard. A client that makes a tube for each reply
//     will notice.
//   - In Gearman, a lock for the JOB_CREATED that are held back: taken once for each
//     job whose client waits for it (see netio/gearman, keeper).
//
// So where puts come to the shards one at a time, the counter is what first stops a
// machine of 64 cores from scaling: at 10 to 20 million puts a second. With deep
// pipelines it is the directory's lock, at some 50 million jobs put and deleted a
// second. 64 cores cannot do as many, at about one million commands each, but a lock
// that is busy for a third of the time already makes some wait.
//
// Without pipelining it will not get that far. Each command is a wake-up then. All
// sockets are in the one epoll instance of Go's runtime: one thread at a time takes
// what is ready, and what it finds for others goes through a queue with one lock. In
// the kernel, whatever comes in on a socket takes the lock of each epoll instance that
// the socket is in: the runtime's, and the hang-up watcher's, though that waits for
// nothing but hang-ups. There is one of each.
package shard

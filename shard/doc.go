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
// sleeps. Whoever posts to a parked mailbox has thereby taken the turn. Without
// a log it serves that turn itself, on the spot, and parks the mailbox again,
// or wakes the shard's goroutine if more has come meanwhile; so a client that is
// alone is answered without a goroutine being woken, and under load the shard's
// goroutine does all the work. With a log it always wakes that goroutine.
//
// A Request is owned by whoever holds it: by the connection until it is
// posted, by the shard until it is answered, by the connection again after.
// It carries the answer back. The mailbox is drained whole, served in order,
// and the clients whose chains are answered are woken when the batch is done;
// that is the place where a log can hold answers back until they are durable.
//
// # Waiting
//
// What all shards share of one client is its Waiter: a claim, which is one
// atomic word, and a wake-up. The claim decides every race about a client that
// waits in reserve: whichever shard, deadline or cancellation moves it out of
// Waiting has won and answers; everyone else sees that it is taken.
//
//	            single shard                       several shards (router)
//	Open ──no job──▶ Waiting              Probing ──nothing anywhere──▶ Waiting
//	 │ hang-up          │ │                  │ a better job came
//	 ▼                  │ └─cancel──▶ Cancelled
//	Closed              ▼                    ▼
//	             Claimed ──▶ Granted       Dirty ──▶ the router asks again
//
// Each posting of a reserve has a sequence number in the same word, so what a
// shard remembers of an earlier wait can never win a later one.
//
// Package router tells how a reserve over several shards is settled with
// Probe and Take.
//
// # Gearman
//
// A function of Gearman is a tube, and what is submitted to it is a job with a
// Task, which holds what beanstalkd's jobs do not have: a unique by which others
// are coalesced with it, a reducer, and the clients that wait for its end. task.go
// draws its life. Who speaks Gearman never waits in here: a worker that finds no
// job asks to be told of the next one (Doze), a client hears of its results, both
// by events in an Inbox, which shards fill and the client's connection empties.
//
// Both protocols order jobs alike: by priority, where high is 0, normal 1024 and
// low 4294967295, and by id. A job knows no TTR if it was submitted by Gearman and
// a Gearman worker has it; a beanstalkd worker has taskTTR, an hour.
//
// # What is promised
//
//   - A job is with at most one client at a time, and in exactly one place: the
//     ready heap or the delay heap or the buried list of its tube, or the held
//     heap of one client.
//   - Ready jobs leave a tube by (priority, id), waiting clients are served in
//     the order in which they began to wait.
//   - Nothing costs more because there are more tubes, jobs or clients than are
//     touched, but for a logarithm. One timer serves all deadlines of a shard.
//   - No command on the hot path allocates in steady state, but a put of a large
//     body, which the connection has allocated, and the first put of 512, for which
//     the directory makes 16 pages, of 256 bytes each.
//   - No command, and nothing that comes due, keeps a shard from others for more than
//     about a thousand jobs at a time, nor fills a batch of the log with more than
//     belongs in one, nor do the reserves of a pipeline look through more than some
//     hundred thousand tubes at a time: see steps.go. But a single reserve looks
//     through all that its client watches here, a client that goes leaves at once all
//     that it watches, and lists and statistics are about all tubes and clients at
//     once.
//   - Nothing waits for the disk but what tells of a change, until it is in the log; and
//     a change that finds the disk full, while cleaning is about to make room.
//   - Large bodies are never copied; an answer refers to the job's body even when
//     the job is deleted before the answer has been written.
//   - The garbage collector does nothing for each job.
//
// # Memory
//
// Jobs are in memory of their shard that the garbage collector does not know (see
// slab), and whatever refers to many of them, heaps and the directory, has nothing
// in it to look at either. Both keep more than is in use when jobs go and others stay;
// the memory budget counts that, but for a slack (see slab and Directory). Ten
// million jobs and their bodies took it a second of a core otherwise, in which
// clients had to wait for hundreds of milliseconds.
//
// For that a body of up to Inline bytes is behind its job, and copied twice:
// there, and from there for an answer, since the job may be gone, and its place
// another's, before the answer is written (see Waiter.Keep). DESIGN.md has all
// bodies stay where they were read, and the collector settle who was last; so it is
// for larger ones, where a copy would cost more, of which there are fewer.
//
// # Many cores
//
// What follows is reasoning: there were two cores to measure on.
//
// Under load a shard's state stays with one core, that of its goroutine. (A shard
// that is mostly idle is served by whoever finds it so: then its state moves from
// core to core, which costs less than waking its goroutine.) What two cores write
// on the hot path is of two kinds. Some goes back and forth between one client and
// one shard: the requests, of two or three cache lines each, small bodies in the
// Waiter's buffer, and the Waiter. That costs each command a few hundred
// nanoseconds, but no more because there are more cores. The mailbox is between
// one shard and all who post to it, once a chain by each and once a batch by the
// shard; so one tube can never be faster than one core, whose work it is.
//
// And some is everybody's, of which a line changes hands in 50 to 100 ns:
//
//   - The counter of job ids, since ids rise in the order of the puts, as clients
//     expect: once for puts that wait for the shard one behind the other, up to 64;
//     but once for each with a log, or with a cap on memory, where a put that is
//     refused takes none, and for each whose body comes later than its line.
//   - The lock of the directory: once in 32 ids, when a page has come to be empty,
//     and once in 512, when a group of pages is made. It was held for 6 ns for each
//     id that comes and goes, by two cores; where all lines that it takes come from
//     other cores it may be 20.
//   - Ids in a row are on one line of the directory, which mostly is one shard's.
//   - The memory budget: once in 64 KiB of each shard; if there is a cap, also once
//     or more for each body that does not come whole with its put, and puts read it.
//   - The first shard keeps the list of tubes: it has a message for each tube that
//     is made or goes, from whatever shard. Who makes a tube for each reply finds
//     it there.
//   - In Gearman, a lock for the JOB_CREATED that are held back: once for a job
//     whose client waits for it (see netio/gearman, keeper).
//
// So where puts come to the shards one at a time, the counter is where a machine
// of 64 cores first stops to scale: at 10 to 20 million puts a second. With deep
// pipelines it is the directory's lock, at some 50 million jobs a second, put and
// deleted: a core makes about one million commands, so 64 cannot do as many, but a
// lock that is busy for a third of the time has some wait already.
//
// Without pipelining it will not get so far: each command is a wake-up then, all
// sockets are in the one epoll instance of Go's runtime, of which one thread at a
// time takes what is ready, and what it finds for others goes through a queue with
// one lock. Whatever comes in on a socket also takes, in the kernel, the lock of
// each epoll instance that it is in, though it be for nothing but hang-ups: that
// of the runtime, and the hang-up watcher's. There is one of each.
package shard

// Package router joins the shards into one engine. It knows which shard owns a
// tube (a hash of its name) or a job (the directory of ids), takes a client's
// commands there and the answers back, gathers what several shards have to say,
// and settles a reserve over tubes on several shards.
//
// # Order
//
// The commands of one client take effect in order. Those that concern the same
// shard are posted together, as one chain, and answered with one wake-up; a
// command for another shard waits until the earlier ones are answered. A
// reserve that has to wait ends its chain: what follows is posted when it is
// answered.
//
// # Reserve over several shards
//
// The client's goroutine settles it, and the client's claim (shard.Waiter, one
// atomic word) makes it exact:
//
//	client                      shard A            shard B            shard C
//	  │ claim = probing            │                  │                  │
//	  ├──Probe────────────────────▶│                  │                  │
//	  ├──Probe───────────────────────────────────────▶│                  │
//	  ├──Probe──────────────────────────────────────────────────────────▶│
//	  │◀──────best: pri 5, id 7────┤ observes         │                  │
//	  │◀──────best: pri 3, id 9───────────────────────┤ observes         │
//	  │◀──────nothing────────────────────────────────────────────────────┤ queues
//	  │                            │                  │                  │
//	  ├──Take, if ≤ (5, 7)───────────────────────────▶│ claim still      │
//	  │◀──────id 9────────────────────────────────────┤ clean? takes     │
//	  ├──Cancel─────────────────────────────────────────────────────────▶│
//
// A probe changes nothing and hides nothing: the jobs that shards tell of stay ready,
// and others may take them. Each shard remembers what it told. If a better job becomes
// ready there while the claim is probing, the shard makes the claim dirty (before it
// answers the command that brought the job), and Take then fails: the client asks
// again. So when Take succeeds, three things hold at the moment when its shard looks at
// the claim: the job is the best there, no other shard has a better one than it told,
// and none of those is better than the job. So the job is the lowest (pri, id) of all
// that were ready at that moment, and the reserve takes effect then. A client whose
// Take finds the job gone tries the next best one while the claim is clean.
//
// When nothing is ready anywhere the client moves its claim from probing to
// waiting, which fails if it has become dirty meanwhile, and waits: the shards
// have it in their tubes' queues already. The first shard with a job for it
// moves the claim on and grants; the others see that it is taken and serve
// their next client. The end of the timeout, DEADLINE_SOON, a hang-up, and a
// shutdown move the claim in the same way, so whoever ends a wait knows whether
// a job was granted before; then it is delivered. The client tells the other
// shards to forget it before it answers.
//
// Nobody ever blocks for somebody else's reserve, so there is no deadlock. An attempt
// fails only because another client's command has taken effect, so the engine as a whole
// always makes progress.
//
// Why does a shard not hold its best job for the asking client, and put it back when
// cancelled? A second client that asks meanwhile would find nothing, though the job is
// put back a moment later: it would be told TIMED_OUT, or given a worse job, while a
// better one was ready all the time. And it would save nothing: either way a reserve
// costs a message to each shard and one more.
//
// # What one client may rely on
//
//   - When a command is answered it has taken effect for everyone.
//   - A job is with at most one client, and never lost: not by a race of grant
//     and timeout, hang-up or shutdown.
//   - Counters add up exactly when nothing is in flight.
package router

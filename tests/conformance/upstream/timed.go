// Mode timed: what pods that all wait in its queue cost the scheduler.

package main

import (
	"context"
	"runtime"
	"syscall"
	"time"

	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Of all threads, the collection of garbage included: it does not depend on what else the machine does.
func processorTime() time.Duration {
	var used syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// The time is that of Pop, UpdateSnapshot, SchedulePod, AssumePod and Done. Nothing is written to an API, and no event
// comes back.
func runTimed(ctx context.Context, scenario M, result M) {
	q := newQueueWorld(ctx, scenario)
	for _, o := range objectsOf(scenario) {
		q.object(o)
	}
	snapshot := *unexported[*internalcache.Snapshot](q, "nodeInfoSnapshot")
	queue := q.sched.SchedulingQueue
	waiting, placed := len(queue.PodsInActiveQ()), 0
	runtime.GC() // of what was made to set up
	began := processorTime()
	for range waiting {
		info := popped(q.logger, queue)
		check(q.cache.UpdateSnapshot(q.logger, snapshot))
		found, err := q.sched.SchedulePod(q.ctx, q.sched.Profiles[info.Pod.Spec.SchedulerName], framework.NewCycleState(), info)
		if err == nil {
			assumed := info.Pod.DeepCopy()
			assumed.Spec.NodeName = found.SuggestedHost
			check(q.cache.AssumePod(q.logger, assumed))
			placed++
		}
		queue.Done(info.Pod.UID)
	}
	result["seconds"], result["placed"] = (processorTime() - began).Seconds(), placed
}

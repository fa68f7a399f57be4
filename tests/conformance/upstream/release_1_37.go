// What is called otherwise in v1.37.

//go:build v1_37

package main

import (
	"context"
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	scheduling "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/scheduling/v1beta1"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

type podGroup = scheduling.PodGroup

const groupScheduled = scheduling.PodGroupInitiallyScheduled

//go:linkname flushUnschedulable k8s.io/kubernetes/pkg/scheduler/backend/queue.(*PriorityQueue).flushUnschedulableEntitiesLeftover
func flushUnschedulable(p *internalqueue.PriorityQueue, logger klog.Logger)

func podGroups(factory informers.SharedInformerFactory) listers.PodGroupLister {
	return factory.Scheduling().V1beta1().PodGroups().Lister()
}

func popped(logger klog.Logger, queue internalqueue.SchedulingQueue) *framework.QueuedPodInfo {
	info, err := queue.Pop(logger)
	check(err)
	return info.(*framework.QueuedPodInfo)
}

func queued(queue internalqueue.SchedulingQueue, pod *v1.Pod) *framework.QueuedPodInfo {
	info, _ := queue.GetPod(pod.Name, pod.Namespace, pod.Spec.SchedulingGroup)
	return info
}

func giveBack(logger klog.Logger, queue internalqueue.SchedulingQueue, info *framework.QueuedPodInfo) error {
	return queue.AddUnschedulablePodIfNotPresent(logger, info, queue.SchedulingCycle())
}

func ofSnapshot(snapshot *internalcache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{frameworkruntime.WithMutableSnapshotLister(snapshot), frameworkruntime.WithSnapshotSharedLister(snapshot)}
}

func newCache(ctx context.Context) internalcache.Cache {
	return internalcache.New(ctx, nil, feature.DefaultFeatureGate.Enabled(features.GenericWorkload), feature.DefaultFeatureGate.Enabled(features.CompositePodGroup))
}

func watchTaintRules(options *resourceslicetracker.Options, factory informers.SharedInformerFactory) {
	options.TaintInformer = factory.Resource().V1().DeviceTaintRules()
}

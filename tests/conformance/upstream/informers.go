// Informers whose handlers are called at once, and nominations by node.

package main

import (
	"context"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

type registered struct{}

func (registered) HasSynced() bool                     { return true }
func (registered) HasSyncedChecker() cache.DoneChecker { return synced{} }

type synced struct{}

func (synced) Name() string { return "synced" }
func (synced) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

type syncInformer struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func (s *syncInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	s.handlers = append(s.handlers, h)
	return registered{}, nil
}
func (s *syncInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(h)
}
func (s *syncInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(h)
}
func (s *syncInformer) HasSynced() bool                     { return true }
func (s *syncInformer) HasSyncedChecker() cache.DoneChecker { return synced{} }
func (s *syncInformer) Run(<-chan struct{})                 {}
func (s *syncInformer) RunWithContext(context.Context)      {}

func (s *syncInformer) put(obj runtime.Object) {
	old, exists, _ := s.GetIndexer().Get(obj)
	s.GetIndexer().Add(obj)
	for _, h := range s.handlers {
		if exists {
			h.OnUpdate(old, obj)
		} else {
			h.OnAdd(obj, false)
		}
	}
}
func (s *syncInformer) remove(obj runtime.Object) {
	old, exists, _ := s.GetIndexer().Get(obj)
	if !exists {
		return
	}
	s.GetIndexer().Delete(old)
	for _, h := range s.handlers {
		h.OnDelete(old)
	}
}

type factory struct {
	informers.SharedInformerFactory
	client clientset.Interface
	known  map[reflect.Type]*syncInformer
}

func (f *factory) InformerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	t := reflect.TypeOf(obj)
	if f.known[t] == nil {
		f.known[t] = &syncInformer{SharedIndexInformer: newFunc(f.client, 0)}
	}
	return f.known[t]
}
func (f *factory) Core() core.Interface             { return core.New(f, "", nil) }
func (f *factory) Apps() apps.Interface             { return apps.New(f, "", nil) }
func (f *factory) Storage() storage.Interface       { return storage.New(f, "", nil) }
func (f *factory) Policy() policy.Interface         { return policy.New(f, "", nil) }
func (f *factory) Resource() resource.Interface     { return resource.New(f, "", nil) }
func (f *factory) Scheduling() scheduling.Interface { return scheduling.New(f, "", nil) }

type nominator struct {
	byNode map[string][]fwk.PodInfo
}

func (n *nominator) AddNominatedPod(_ klog.Logger, p fwk.PodInfo, info *fwk.NominatingInfo) {
	n.DeleteNominatedPodIfExists(p.GetPod())
	node := p.GetPod().Status.NominatedNodeName
	if info != nil && info.NominatingMode == fwk.ModeOverride {
		node = info.NominatedNodeName
	}
	if node != "" {
		n.byNode[node] = append(n.byNode[node], p)
	}
}
func (n *nominator) DeleteNominatedPodIfExists(pod *v1.Pod) {
	for node, pods := range n.byNode {
		n.byNode[node] = slices.DeleteFunc(pods, func(p fwk.PodInfo) bool { return p.GetPod().UID == pod.UID })
	}
}
func (n *nominator) UpdateNominatedPod(l klog.Logger, old *v1.Pod, p fwk.PodInfo) {
	n.DeleteNominatedPodIfExists(old)
	n.AddNominatedPod(l, p, nil)
}
func (n *nominator) NominatedPodsForNode(node string) []fwk.PodInfo {
	return slices.Clone(n.byNode[node])
}

// The parts of kube-scheduler that a scenario needs, built as scheduler.New builds them.

package main

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

type profile struct {
	framework.Framework
	plugins map[string]fwk.Plugin
	weights map[string]int64
}

type world struct {
	ctx        context.Context
	logger     klog.Logger
	factory    *factory
	client     *fake.Clientset
	cache      internalcache.Cache
	snapshot   *internalcache.Snapshot
	nominator  *nominator
	profiles   map[string]*profile
	first      *profile
	version    int
	namespaces sets.Set[string]
	pods       map[string]*v1.Pod // bound or waiting
	lastOrder  []string
	static     M
	dynamic    []string
	volumesNow []runtime.Object
	generated  int
	writes     *writes
	mode       string
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func configurationOf(scenario M) *config.KubeSchedulerConfiguration {
	text := `{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration"}`
	if c, ok := scenario["config"].(M); ok && c["configuration"] != nil {
		b, _ := json.Marshal(c["configuration"])
		text = string(b)
	}
	obj, _, err := configscheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	check(err)
	return obj.(*config.KubeSchedulerConfiguration)
}

// All scenarios wait a second for binding conditions.
func bindingTimeout(plugins []config.PluginConfig) {
	for _, one := range plugins {
		if args, ok := one.Args.(*config.DynamicResourcesArgs); ok && args.BindingTimeout != nil {
			args.BindingTimeout = &metav1.Duration{Duration: time.Second}
		}
	}
}

// Namespaces come first, wherever they stand.
func objectsOf(scenario M) []runtime.Object {
	namespaces, others := []runtime.Object{}, []runtime.Object{}
	for _, o := range scenario["objects"].([]any) {
		if obj := decode(o); reflect.TypeOf(obj) == reflect.TypeOf(&v1.Namespace{}) {
			namespaces = append(namespaces, obj)
		} else {
			others = append(others, obj)
		}
	}
	return append(namespaces, others...)
}

func newWorld(ctx context.Context, scenario M) (w *world) {
	w = &world{ctx: ctx, logger: klog.FromContext(ctx), nominator: &nominator{map[string][]fwk.PodInfo{}}, profiles: map[string]*profile{},
		namespaces: sets.New[string](), pods: map[string]*v1.Pod{}, lastOrder: nil}
	cfg := configurationOf(scenario)
	w.client = fake.NewClientset()
	w.client.PrependReactor("update", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pv := a.(clienttesting.UpdateAction).GetObject().(*v1.PersistentVolume).DeepCopy()
		old, _ := w.factory.Core().V1().PersistentVolumes().Lister().Get(pv.Name)
		if old == nil || old.Spec.ClaimRef == nil {
			w.static[pv.Spec.ClaimRef.Namespace+"/"+pv.Spec.ClaimRef.Name] = pv.Name
		}
		w.put(pv)
		w.volumesNow = append(w.volumesNow, pv)
		return true, pv, nil
	})
	w.client.PrependReactor("update", "persistentvolumeclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pvc := a.(clienttesting.UpdateAction).GetObject().(*v1.PersistentVolumeClaim).DeepCopy()
		w.dynamic = append(w.dynamic, pvc.Namespace+"/"+pvc.Name)
		w.put(pvc)
		return true, pvc, nil
	})
	w.client.PrependReactor("*", "resourceclaims", w.writeClaim)
	w.client.PrependReactor("patch", "pods", w.patchPod)
	w.factory = &factory{SharedInformerFactory: informers.NewSharedInformerFactory(w.client, 0), client: w.client, known: map[reflect.Type]*syncInformer{}}
	w.snapshot = internalcache.NewEmptySnapshot()
	claims := assumecache.NewAssumeCache(w.logger, w.factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	opts := resourceslicetracker.Options{
		EnableDeviceTaintRules:   utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules),
		EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            w.factory.Resource().V1().ResourceSlices(),
		KubeClient:               w.client,
	}
	if opts.EnableDeviceTaintRules {
		watchTaintRules(&opts, w.factory)
	}
	tracker, err := resourceslicetracker.StartTracker(ctx, opts)
	check(err)
	dra := dynamicresources.NewDRAManager(ctx, claims, tracker, w.factory)
	if utilfeature.DefaultFeatureGate.Enabled(features.DRAExtendedResource) {
		w.factory.Resource().V1().DeviceClasses().Informer().AddEventHandler(dra.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache))
	}
	csi := nodevolumelimits.NewCSIManager(w.factory.Storage().V1().CSINodes().Lister())
	w.cache = newCache(ctx)
	w.factory.Core().V1().Nodes().Informer()
	w.factory.Core().V1().Pods().Informer()
	w.factory.Core().V1().Namespaces().Informer()
	w.factory.Policy().V1().PodDisruptionBudgets().Informer()
	for _, one := range cfg.Profiles {
		p := &profile{plugins: map[string]fwk.Plugin{}, weights: map[string]int64{}}
		bindingTimeout(one.PluginConfig)
		registry := frameworkruntime.Registry{}
		for name, make := range frameworkplugins.NewInTreeRegistry() {
			registry[name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
				made, err := make(ctx, args, h)
				if err == nil {
					p.plugins[name] = made
				}
				return made, err
			}
		}
		p.Framework, err = frameworkruntime.NewFramework(ctx, registry, &one, append(ofSnapshot(w.snapshot),
			frameworkruntime.WithComponentConfigVersion(cfg.TypeMeta.APIVersion),
			frameworkruntime.WithClientSet(w.client),
			frameworkruntime.WithInformerFactory(w.factory),
			frameworkruntime.WithSharedDRAManager(dra),
			frameworkruntime.WithParallelism(1),
			frameworkruntime.WithMetricsRecorder(metrics.NewMetricsAsyncRecorder(1000, time.Second, ctx.Done())),
			frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
			frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
			frameworkruntime.WithSharedCSIManager(csi),
			frameworkruntime.WithPodGroupManager(w.cache),
			frameworkruntime.WithEventRecorder(events.NewFakeRecorder(100000)),
			frameworkruntime.WithPodNominator(w.nominator),
		)...)
		check(err)
		for _, s := range p.ListPlugins().Score.Enabled {
			p.weights[s.Name] = int64(s.Weight)
		}
		w.profiles[one.SchedulerName] = p
		if w.first == nil {
			w.first = p
		}
	}
	return w
}

// Mode configuration: whether a text is accepted, and what it comes to.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
)

func runConfiguration(ctx context.Context, text string, result M) {
	fail := func(stage string, err error) {
		result["ok"], result["stage"], result["error"] = false, stage, err.Error()
	}
	obj, gvk, err := configscheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		fail("load", err)
		return
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		fail("load", fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s: ", gvk))
		return
	}
	cfg.APIVersion = gvk.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		fail("validate", err)
		return
	}
	client := fake.NewClientset()
	sched, err := scheduler.New(ctx, client, informers.NewSharedInformerFactory(client, 0), nil,
		func(string) events.EventRecorderLogger { return events.NewFakeRecorder(10) },
		scheduler.WithComponentConfigVersion(cfg.APIVersion), scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore), scheduler.WithParallelism(cfg.Parallelism),
		scheduler.WithPodInitialBackoffSeconds(cfg.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(cfg.PodMaxBackoffSeconds), scheduler.WithExtenders(cfg.Extenders...))
	if err != nil {
		fail("new", err)
		return
	}
	info, _ := runtime.SerializerInfoForMediaType(configscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	encoded, err := runtime.Encode(configscheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion), cfg)
	check(err)
	var written M
	check(json.Unmarshal(encoded, &written))
	effective := M{"leaderElect": written["leaderElection"].(M)["leaderElect"], "delayCacheUntilActive": cfg.DelayCacheUntilActive}
	for _, name := range []string{"parallelism", "percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds", "extenders"} {
		put(effective, name, written[name])
	}
	registry := plugins.NewInTreeRegistry()
	profiles := []any{}
	for i, p := range written["profiles"].([]any) {
		given := p.(M)
		made := M{"schedulerName": given["schedulerName"]}
		put(made, "percentageOfNodesToScore", given["percentageOfNodesToScore"])
		args := M{}
		for _, one := range given["pluginConfig"].([]any) {
			name := one.(M)["name"].(string)
			if given, ok := one.(M)["args"]; ok && registry[name] != nil {
				args[name] = given
			}
		}
		put(made, "args", args)
		points := M{}
		enabled := reflect.ValueOf(sched.Profiles[cfg.Profiles[i].SchedulerName].ListPlugins()).Elem()
		for at := range enabled.NumField() {
			set, ok := enabled.Field(at).Interface().(config.PluginSet)
			name := enabled.Type().Field(at).Name
			name = strings.ToLower(name[:1]) + name[1:]
			list := []any{}
			for _, one := range set.Enabled {
				if name == "score" || name == "placementScore" {
					list = append(list, M{"name": one.Name, "weight": one.Weight})
				} else {
					list = append(list, one.Name)
				}
			}
			if ok {
				put(points, name, list)
			}
		}
		made["plugins"] = points
		profiles = append(profiles, made)
	}
	effective["profiles"] = profiles
	result["ok"], result["effective"] = true, effective
}

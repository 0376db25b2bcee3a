// Creates, reads, updates and deletes a pool and an intent by the generated client. The argument is the server's URL.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	fairway "fairway/client"
)

func main() {
	settings := fairway.NewConfiguration()
	settings.Servers = fairway.ServerConfigurations{{URL: os.Args[1]}}
	client := fairway.NewAPIClient(settings)
	pools(client.ObjectsAPI)
	intents(client.IntentsAPI)
	fmt.Println("all done")
}

func pools(api *fairway.ObjectsAPIService) {
	ctx := context.Background()
	weighted := "weighted"
	pool := fairway.NewPool([]fairway.Member{*fairway.NewMember("eu1")}, "made", fairway.PoolPolicy{String: &weighted})
	made, response, err := api.CreatePool(ctx).Pool(*pool).Reason("by Go").Execute()
	check("create", response, err, 201)
	expect("created pool", made.Pool.GetName(), "made")

	report, response, err := api.CreatePool(ctx).Pool(*fairway.NewPool(pool.Members, "other", pool.Policy)).DryRun(true).Execute()
	check("dry run", response, err, 200)
	expect("dry run", fmt.Sprint(report.ApplyReport.GetCreated()), "[pools/other]")

	found, response, err := api.GetPool(ctx, "made").Execute()
	check("read", response, err, 200)
	expect("member", found.Members[0].GetCluster(), "eu1")
	tag := response.Header.Get("ETag")

	found.SetTtl("7s")
	_, response, err = api.ReplacePool(ctx, "made").Pool(*found).IfMatch("\"0\"").Execute()
	if err == nil || response.StatusCode != http.StatusPreconditionFailed {
		panic(fmt.Sprint("another revision was replaced: ", response.Status, err))
	}
	replaced, response, err := api.ReplacePool(ctx, "made").Pool(*found).IfMatch(tag).Execute()
	check("replace", response, err, 200)
	expect("TTL", replaced.Pool.GetTtl(), "7s")
	tag = response.Header.Get("ETag")

	list, response, err := api.ListPools(ctx).Contains("made").Execute()
	check("list", response, err, 200)
	expect("list", list.Items[0].GetName(), "made")
	_, response, err = api.DeletePool(ctx, "made").IfMatch(tag).Execute()
	check("delete", response, err, 204)
	_, response, _ = api.GetPool(ctx, "made").Execute()
	expect("after deletion", response.Status, "404 Not Found")
}

func intents(api *fairway.IntentsAPIService) {
	ctx := context.Background()
	body := fairway.NewInboundBody(*fairway.NewIntentMetadata("made"), *fairway.NewInboundBodySpec("shop", "shop"))
	body.Spec.SetExternalSupport(true)
	body.Spec.SetExternalName("made.page.test")
	_, response, err := api.ReplaceInboundIntent(ctx, "p", "a", "v1", "default", "default", "made").InboundBody(*body).IfNoneMatch("*").Execute()
	check("create intent", response, err, 201)
	found, response, err := api.GetInboundIntent(ctx, "p", "a", "v1", "default", "default", "made").Execute()
	check("read intent", response, err, 200)
	expect("name", found.Spec.GetExternalName(), "made.page.test")

	found.Spec.SetTrafficWeight(20)
	replaced, response, err := api.ReplaceInboundIntent(ctx, "p", "a", "v1", "default", "default", "made").
		InboundBody(*found).IfMatch(response.Header.Get("ETag")).Execute()
	check("replace intent", response, err, 200)
	expect("weight", fmt.Sprint(replaced.InboundBody.Spec.GetTrafficWeight()), "20")
	_, response, err = api.DeleteInboundIntent(ctx, "p", "a", "v1", "default", "default", "made").IfMatch(response.Header.Get("ETag")).Execute()
	check("delete intent", response, err, 204)
}

func check(what string, response *http.Response, err error, status int) {
	if err != nil || response.StatusCode != status {
		panic(fmt.Sprintf("%s: %v, %v", what, response, err))
	}
}

func expect(what, found, wanted string) {
	if found != wanted {
		panic(fmt.Sprintf("%s: %q, expected %q", what, found, wanted))
	}
}

package live;

import java.util.HashMap;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.ExecutorSummary;
import org.apache.storm.generated.KillOptions;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.generated.RebalanceOptions;
import org.apache.storm.generated.TopologySummary;
import org.apache.storm.grouping.PartialKeyGrouping;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;
import org.apache.storm.utils.NimbusClient;
import org.apache.storm.utils.Utils;
import keyshift.storm.PlanSpout;

/** submit, where, rebalance or kill; name=value arguments. */
public class Main {
    private static final Map<String, String> GIVEN = new HashMap<>();

    private static int whole(String name, int otherwise) {
        return Integer.parseInt(GIVEN.getOrDefault(name, String.valueOf(otherwise)));
    }

    public static void main(String[] words) throws Exception {
        for (int i = 1; i < words.length; i++) {
            String[] parts = words[i].split("=", 2);
            GIVEN.put(parts[0], parts[1]);
        }
        String name = GIVEN.getOrDefault("name", "live");
        if (words[0].equals("submit")) {
            submit(name);
        }
        try (NimbusClient client = NimbusClient.Builder.withConf(Utils.readStormConfig()).build()) {
            Nimbus.Iface nimbus = client.getClient();
            if (words[0].equals("where")) {
                for (ExecutorSummary one : nimbus.getTopologyInfoByName(name).get_executors()) {
                    System.out.println(one.get_component_id() + " " + one.get_executor_info().get_task_start() + " " + one.get_port());
                }
            } else if (words[0].equals("rebalance")) {
                RebalanceOptions options = new RebalanceOptions();
                options.set_wait_secs(0);
                options.set_num_workers(whole("workers", 3));
                nimbus.rebalance(name, options);
            } else if (words[0].equals("kill")) {
                KillOptions options = new KillOptions();
                options.set_wait_secs(0);
                nimbus.killTopologyWithOpts(name, options);
                while (nimbus.getTopologySummaries().stream().map(TopologySummary::get_name).anyMatch(name::equals)) {
                    Thread.sleep(100);
                }
            }
        }
        System.exit(0);
    }

    private static void submit(String name) throws Exception {
        String out = GIVEN.get("out");
        String plan = out + "/plan.json";
        int groups = whole("groups", 128);
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("source", new PlanSpout(new Source(out), plan), whole("spouts", 4));
        Work work = new Work(out, plan, groups, GIVEN.containsKey("kept"));
        work.counted(out + "/counts", whole("window", 10));
        if (GIVEN.containsKey("kept")) {
            work.kept(GIVEN.get("kept"));
        }
        BoltDeclarer declarer = work.wire(builder.setBolt("work", work, whole("tasks", 8)), "work", "source");
        declarer.fieldsGrouping("source", "fields", new Fields("key")).shuffleGrouping("source", "shuffle");
        for (int i = 0; i < Source.PARTIAL; i++) {
            declarer.customGrouping("source", "pkg" + i, new PartialKeyGrouping(new Fields("key")));
        }
        Config conf = new Config();
        conf.setNumWorkers(whole("workers", 4));
        conf.setNumAckers(whole("ackers", 2));
        conf.setMessageTimeoutSecs(whole("timeout", 60));
        conf.setMaxSpoutPending(100_000);
        conf.put(Config.TOPOLOGY_EXECUTOR_RECEIVE_BUFFER_SIZE, 32_768);
        conf.put(Config.TOPOLOGY_DISABLE_LOADAWARE_MESSAGING, true); // shuffling would prefer tasks of the same worker
        conf.put(Config.TOPOLOGY_WORKER_CHILDOPTS, "-XX:TieredStopAtLevel=1");
        conf.put("topology.bolt.wait.progressive.level2.count", 0); // no busy waiting: the machine has two cores
        conf.put("topology.backpressure.wait.progressive.level2.count", 0);
        StormSubmitter.submitTopology(name, conf, builder.createTopology());
    }
}

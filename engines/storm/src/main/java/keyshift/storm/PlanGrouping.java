package keyshift.storm;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.grouping.CustomStreamGrouping;
import org.apache.storm.task.WorkerTopologyContext;
import org.apache.storm.tuple.Fields;

/**
 * Sends each tuple where a plan of keyshift says: by a table of key groups, and of keys, hot ones with several tasks.
 *
 * <p>Behind a {@link PlanSpout} a new table is in force at one tuple of each spout, together with the move of the state; behind
 * anything else as soon as the file has changed, which is enough where no state has to move.
 */
public final class PlanGrouping implements CustomStreamGrouping {
    private static final long serialVersionUID = 1;
    private final String path;
    private final int groups;
    private final Fields field;
    private transient PlanFile file;
    private transient int position;
    private transient List<List<Integer>> targets;
    private transient long[] sent;
    private transient Table last;

    /** Route by one field, as the file at this path on every worker's machine says; so many key groups. */
    public PlanGrouping(String path, int groups, String field) {
        this.path = path;
        this.groups = groups;
        this.field = new Fields(field);
    }

    @Override
    public void prepare(WorkerTopologyContext context, GlobalStreamId stream, List<Integer> tasks) {
        position = context.getComponentOutputFields(stream).fieldIndex(field.get(0));
        targets = tasks.stream().sorted().map(Collections::singletonList).toList();
        sent = new long[tasks.size()];
        file = PlanFile.of(path).expect(tasks.size(), groups);
    }

    @Override
    public List<Integer> chooseTasks(int sender, List<Object> values) {
        Table table = file.of(sender);
        if (table != last) { // what was sent by another table says nothing about this one
            last = table;
            Arrays.fill(sent, 0);
        }
        int[] allowed = table.tasks(String.valueOf(values.get(position)));
        int best = allowed[0];
        for (int task : allowed) { // of several tasks the one to which this sender has sent the least
            best = sent[task] < sent[best] ? task : best;
        }
        sent[best]++;
        return targets.get(best);
    }
}

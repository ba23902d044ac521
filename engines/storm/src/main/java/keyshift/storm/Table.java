package keyshift.storm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * Which tasks the tuples of a key go to, by their positions among the tasks of the receiving component.
 *
 * <p>A key with an entry goes to one of the entry's tasks; every other key goes where its key group goes. Strings hash to
 * key groups as fields grouping hashes them to tasks, other keys as their text does.
 */
public final class Table {
    private final int[][] groups;
    private final Map<String, int[]> entries;

    /** The task of each key group, and the tasks of each listed key. */
    public Table(int[] groups, Map<String, int[]> entries) {
        this.groups = Arrays.stream(groups).mapToObj(task -> new int[] {task}).toArray(int[][]::new);
        this.entries = new HashMap<>(entries);
    }

    /** Fields grouping, if the number of groups is a multiple of the number of tasks. */
    public static Table hash(int tasks, int groups) {
        int[] made = new int[groups];
        Arrays.setAll(made, group -> group % tasks);
        return new Table(made, Map.of());
    }

    /** The key group of a key. */
    public int group(String key) {
        return Math.floorMod(31 + key.hashCode(), groups.length);
    }

    /** The tasks that a key's tuples may go to. */
    public int[] tasks(String key) {
        int[] listed = entries.get(key);
        return listed == null ? groups[group(key)] : listed;
    }

    /** As files have it. */
    Map<String, Object> asRecord() {
        Map<String, Object> listed = new TreeMap<>();
        entries.forEach((key, tasks) -> listed.put(key, Arrays.stream(tasks).boxed().toList()));
        return Map.of("groups", Arrays.stream(groups).map(one -> one[0]).toList(), "entries", listed);
    }

    int groups() {
        return groups.length;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Table that && asRecord().equals(that.asRecord());
    }

    @Override
    public int hashCode() {
        return asRecord().hashCode();
    }

    boolean listed(String key) {
        return entries.containsKey(key);
    }

    /** Whether every task is one of so many, and every entry has a task. */
    boolean fits(int tasks) {
        return Arrays.stream(groups).allMatch(one -> one[0] >= 0 && one[0] < tasks)
            && entries.values().stream()
                .allMatch(all -> all.length > 0 && Arrays.stream(all).allMatch(task -> task >= 0 && task < tasks));
    }

    /** A key's state travels alone if one of the two tables lists the key, otherwise together with its key group. */
    static String unit(Table before, Table after, String key) {
        return before.listed(key) || after.listed(key) ? "key " + key : "group " + after.group(key);
    }

    /** A unit that one task gives to another, which must not serve it before, unless several tasks serve it before or after. */
    record Move(String unit, int from, int to, boolean whole) { }

    /** What moves between two tables, in an order that all tasks share. */
    static List<Move> moves(Table before, Table after) {
        List<Move> found = new ArrayList<>();
        for (int group = 0; group < after.groups.length; group++) {
            add(found, "group " + group, before.groups[group], after.groups[group]);
        }
        Set<String> listed = new TreeSet<>(before.entries.keySet());
        listed.addAll(after.entries.keySet());
        for (String key : listed) {
            add(found, "key " + key, before.tasks(key), after.tasks(key));
        }
        return found;
    }

    private static void add(List<Move> found, String unit, int[] before, int[] after) {
        for (int from : before) {
            if (!among(after, from)) {
                found.add(new Move(unit, from, after[0], before.length == 1 && after.length == 1));
            }
        }
    }

    static boolean among(int[] tasks, int task) {
        return Arrays.stream(tasks).anyMatch(one -> one == task);
    }
}

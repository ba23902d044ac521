package keyshift.storm;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What {@code keyshift export --to storm} wrote: numbered tables, read again when the file changes. One for each path and
 * worker process.
 *
 * <p>Before any file is there, table 0 is the hash. A plan's first table has the number of the one in force. A file that
 * cannot be read, or is for another number of tasks, is not used, and the worker's log says why.
 */
final class PlanFile {
    private static final Logger LOG = LoggerFactory.getLogger(PlanFile.class);
    private static final Map<String, PlanFile> OPEN = new ConcurrentHashMap<>();
    private static final long EVERY = 200_000_000L;

    private final Path path;
    private final TreeMap<Integer, Table> tables = new TreeMap<>();
    private final Map<Integer, Integer> inForce = new ConcurrentHashMap<>();
    private int tasks;
    private long looked;
    private String seen = "";

    private PlanFile(String path) {
        this.path = Path.of(path);
    }

    static PlanFile of(String path) {
        return OPEN.computeIfAbsent(path, PlanFile::new);
    }

    /** Fix the number of tasks and, before there is a file, of key groups. */
    synchronized PlanFile expect(int tasks, int groups) {
        if (this.tasks == 0) {
            this.tasks = tasks;
            tables.put(0, Table.hash(tasks, groups));
            look(true);
        }
        return this;
    }

    /** The number of the newest table. */
    synchronized int newest() {
        look(false);
        return tables.isEmpty() ? 0 : tables.lastKey();
    }

    /** A table by its number; null if there is none. */
    synchronized Table table(int epoch) {
        look(!tables.containsKey(epoch));
        return tables.get(epoch);
    }

    /** The table with the next higher number; -1 if there is none. */
    synchronized int after(int epoch) {
        look(false);
        Integer next = tables.higherKey(epoch);
        return next == null ? -1 : next;
    }

    /** From its next tuple on, a sender uses this table. */
    void use(int sender, int epoch) {
        inForce.put(sender, epoch);
    }

    /** A sender's table: the newest if nobody says which. */
    Table of(int sender) {
        Integer epoch = inForce.get(sender);
        return table(epoch == null ? newest() : epoch);
    }

    private void look(boolean now) {
        if (tasks == 0 || (!now && System.nanoTime() - looked < EVERY)) {
            return;
        }
        looked = System.nanoTime();
        try {
            String stamp = Files.getLastModifiedTime(path) + " " + Files.size(path);
            if (!stamp.equals(seen)) {
                seen = stamp;
                read();
            }
        } catch (NoSuchFileException e) {
            seen = "";
        } catch (IOException | RuntimeException e) {
            LOG.error("{} is not used: {}", path, e.toString());
        }
    }

    private void read() throws IOException {
        Map<?, ?> content = (Map<?, ?>) JSONValue.parse(Files.readString(path));
        if (content == null || !"keyshift-storm-grouping".equals(content.get("format"))) {
            throw new IllegalArgumentException("it is not a grouping that keyshift wrote");
        }
        if (whole(content.get("tasks")) != tasks) {
            throw new IllegalArgumentException("it is for " + content.get("tasks") + " tasks, there are " + tasks);
        }
        boolean numbered = content.containsKey("tables");
        int epoch = numbered ? whole(content.get("epoch")) : tables.lastKey() + 1;
        List<?> listed = numbered ? (List<?>) content.get("tables") : List.of(content);
        Map<Integer, Table> found = new TreeMap<>();
        for (Object one : listed) {
            Table table = tableOf((Map<?, ?>) one);
            if (!table.fits(tasks)) {
                throw new IllegalArgumentException("a table names a task that is not there");
            }
            if (table.groups() != tables.firstEntry().getValue().groups()) {
                throw new IllegalArgumentException("it has " + table.groups() + " key groups, the topology has "
                    + tables.firstEntry().getValue().groups());
            }
            int number = epoch + found.size();
            if (tables.containsKey(number) && !tables.get(number).equals(table)) {
                throw new IllegalArgumentException("its table " + number + " differs from the one that had this number");
            }
            found.put(number, table);
        }
        found.forEach(tables::putIfAbsent);
        LOG.info("{}: tables {} to {}", path, epoch, epoch + found.size() - 1);
    }

    private Table tableOf(Map<?, ?> content) {
        Map<String, int[]> entries = new HashMap<>();
        Map<?, ?> listed = content.containsKey("entries") ? (Map<?, ?>) content.get("entries") : Map.of();
        listed.forEach((key, where) -> entries.put((String) key, where instanceof List<?> all ? wholes(all) : new int[] {whole(where)}));
        List<?> groups = (List<?>) content.get("groups");
        if (groups != null) {
            return new Table(wholes(groups), entries);
        }
        int[] hash = new int[tables.firstEntry().getValue().groups()];
        Arrays.setAll(hash, group -> group % tasks);
        return new Table(hash, entries);
    }

    private static int[] wholes(List<?> numbers) {
        return numbers.stream().mapToInt(PlanFile::whole).toArray();
    }

    private static int whole(Object number) {
        return ((Number) number).intValue();
    }
}
